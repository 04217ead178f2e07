package main

import (
	"context"
	"fmt"
	"os"
	"time"

	tail "github.com/open-telemetry/opentelemetry-collector-contrib/processor/tailsamplingprocessor"
	"github.com/open-telemetry/opentelemetry-collector-contrib/processor/tailsamplingprocessor/pkg/samplingpolicy"
	"go.opentelemetry.io/collector/component/componenttest"
	"go.opentelemetry.io/collector/confmap"
	"go.opentelemetry.io/collector/consumer/consumertest"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/ptrace"
	"go.opentelemetry.io/collector/processor"
	"go.opentelemetry.io/collector/processor/processortest"
)

const (
	section = "tail_sampling"
	// Longer than any run, so that no trace is judged before all of it has come.
	wait = 10 * time.Minute
	// More than any input has, so that no trace is pushed out.
	manyTraces = 1 << 22
)

var decisionNames = map[samplingpolicy.Decision]string{
	samplingpolicy.Sampled:    "sampled",
	samplingpolicy.NotSampled: "not_sampled",
	samplingpolicy.Dropped:    "dropped",
}

type verdict struct {
	decision  string
	policy    string
	composite string
}

// sampler is a running processor, what it passes on, and what it says of each trace.
type sampler struct {
	processor processor.Traces
	sink      *consumertest.TracesSink
	verdicts  map[pcommon.TraceID]verdict
}

// newSampler starts a processor of a policy file; an error is the processor's own refusal of it.
func newSampler(path string) (*sampler, error) {
	s := &sampler{sink: new(consumertest.TracesSink), verdicts: map[pcommon.TraceID]verdict{}}
	factory := tail.NewFactory()
	config := factory.CreateDefaultConfig().(*tail.Config)
	if err := load(path, config); err != nil {
		return nil, err
	}
	config.DecisionWait, config.DecisionWaitAfterRootReceived = wait, 0
	config.NumTraces, config.DropPendingTracesOnShutdown = manyTraces, false
	config.Options = []tail.Option{tail.WithSampledHooks(s.hear), tail.WithNonSampledHooks(s.hear)}
	settings := processortest.NewNopSettings(factory.Type())
	var err error
	if s.processor, err = factory.CreateTraces(context.Background(), settings, config, s.sink); err != nil {
		return nil, err
	}
	return s, s.processor.Start(context.Background(), componenttest.NewNopHost())
}

// load reads a policy file as the collector reads its configuration, whether or not it names its section.
func load(path string, config *tail.Config) error {
	content, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	retrieved, err := confmap.NewRetrievedFromYAML(content)
	if err != nil {
		return err
	}
	conf, err := retrieved.AsConf()
	if err != nil {
		return err
	}
	if conf.IsSet(section) {
		if conf, err = conf.Sub(section); err != nil {
			return err
		}
	}
	return conf.Unmarshal(config)
}

func (s *sampler) hear(_ context.Context, id pcommon.TraceID, trace *tail.TraceData) {
	s.verdicts[id] = verdict{
		decision: decisionNames[trace.FinalDecision], policy: trace.PolicyName, composite: compositeOf(trace.ReceivedBatches),
	}
}

// decide feeds all messages, shuts the processor down, and holds what it said against what it passed on.
func (s *sampler) decide(ctx context.Context, in *input) (map[pcommon.TraceID]verdict, error) {
	for _, message := range in.messages {
		mine := ptrace.NewTraces()
		message.CopyTo(mine) // the processor changes what it is given
		if err := s.processor.ConsumeTraces(ctx, mine); err != nil {
			return nil, err
		}
	}
	if err := s.processor.Shutdown(ctx); err != nil {
		return nil, err
	}
	passed := map[pcommon.TraceID]int{}
	for _, message := range s.sink.AllTraces() {
		eachSpan(message, func(span ptrace.Span) { passed[span.TraceID()]++ })
	}
	for _, id := range in.order {
		said, ok := s.verdicts[id]
		whole := passed[id] == in.spans[id]
		if !ok || whole != (said.decision == "sampled") || (!whole && passed[id] != 0) {
			return nil, fmt.Errorf("trace %s: said %+v, but %d of %d spans passed", id, said, passed[id], in.spans[id])
		}
	}
	return s.verdicts, nil
}

// compositeOf returns the sub-policy that a composite policy wrote on the scopes of what it sampled.
func compositeOf(trace ptrace.Traces) string {
	for _, resource := range trace.ResourceSpans().All() {
		for _, scope := range resource.ScopeSpans().All() {
			if name, ok := scope.Scope().Attributes().Get("tailsampling.composite_policy"); ok {
				return name.Str()
			}
		}
	}
	return ""
}
