// Tailsampler prints what the collector's tail sampling processor decides on the traces of a file.
//
// Each policy file holds the body of a `tail_sampling:` section and is run by a processor of its own on all traces.
// Nothing waits: the decisions are those that the processor makes when it is shut down with everything received.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"

	"go.opentelemetry.io/collector/featuregate"
)

// recordPolicy makes the processor write the sub-policy of a composite policy on what it samples.
const recordPolicy = "processor.tailsamplingprocessor.recordpolicy"

// line is what is printed for one trace under one policy file, or for a policy file that the processor refuses.
type line struct {
	Policies  string `json:"policies"`
	TraceID   string `json:"trace_id,omitempty"`
	Sampled   bool   `json:"sampled"`
	Decision  string `json:"decision,omitempty"`
	Policy    string `json:"policy,omitempty"`
	Composite string `json:"composite_policy,omitempty"`
	Error     string `json:"error,omitempty"`
}

func main() {
	traces := flag.String("traces", "", "messages as OTLP JSON lines (.jsonl, .jsonl.gz), or as protobuf, each after its length in four bytes")
	flag.Parse()
	if *traces == "" || flag.NArg() == 0 {
		fmt.Fprintln(os.Stderr, "usage: tailsampler -traces FILE POLICIES.yaml ...")
		os.Exit(2)
	}
	if err := run(*traces, flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, "tailsampler:", err)
		os.Exit(1)
	}
}

func run(traces string, policies []string) error {
	if err := featuregate.GlobalRegistry().Set(recordPolicy, true); err != nil {
		return err
	}
	input, err := readInput(traces)
	if err != nil {
		return fmt.Errorf("%s: %w", traces, err)
	}
	out := json.NewEncoder(os.Stdout)
	for _, path := range policies {
		lines, err := judge(path, input)
		if err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		for _, each := range lines {
			if err := out.Encode(each); err != nil {
				return err
			}
		}
	}
	return nil
}

// judge returns a line for each trace, in the order in which the traces first came, or one line with a refusal.
func judge(path string, in *input) ([]line, error) {
	sampler, refusal := newSampler(path)
	if refusal != nil {
		return []line{{Policies: path, Error: refusal.Error()}}, nil
	}
	verdicts, err := sampler.decide(context.Background(), in)
	if err != nil {
		return nil, err
	}
	lines := make([]line, 0, len(in.order))
	for _, id := range in.order {
		verdict := verdicts[id]
		lines = append(lines, line{
			Policies: path, TraceID: id.String(), Sampled: verdict.decision == "sampled",
			Decision: verdict.decision, Policy: verdict.policy, Composite: verdict.composite,
		})
	}
	return lines, nil
}
