package main

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"errors"
	"io"
	"os"
	"strings"

	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/ptrace"
)

// longestLine bounds one OTLP JSON message.
const longestLine = 64 << 20

// input is what all policy files are run on: the messages, and the traces in them by first appearance.
type input struct {
	messages []ptrace.Traces
	order    []pcommon.TraceID
	spans    map[pcommon.TraceID]int
}

func readInput(path string) (*input, error) {
	content, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	if strings.HasSuffix(path, ".gz") {
		if content, err = unzip(content); err != nil {
			return nil, err
		}
	}
	read := readFrames
	if strings.HasSuffix(strings.TrimSuffix(path, ".gz"), ".jsonl") {
		read = readLines
	}
	messages, err := read(content)
	if err != nil {
		return nil, err
	}
	in := &input{messages: messages, spans: map[pcommon.TraceID]int{}}
	for _, message := range messages {
		eachSpan(message, in.note)
	}
	return in, nil
}

func (in *input) note(span ptrace.Span) {
	id := span.TraceID()
	if in.spans[id] == 0 {
		in.order = append(in.order, id)
	}
	in.spans[id]++
}

func unzip(content []byte) ([]byte, error) {
	reader, err := gzip.NewReader(bytes.NewReader(content))
	if err != nil {
		return nil, err
	}
	return io.ReadAll(reader)
}

// readLines reads one OTLP JSON message a line.
func readLines(content []byte) ([]ptrace.Traces, error) {
	var messages []ptrace.Traces
	lines := bufio.NewScanner(bytes.NewReader(content))
	lines.Buffer(nil, longestLine)
	unmarshaler := &ptrace.JSONUnmarshaler{}
	for lines.Scan() {
		message, err := unmarshaler.UnmarshalTraces(lines.Bytes())
		if err != nil {
			return nil, err
		}
		messages = append(messages, message)
	}
	return messages, lines.Err()
}

// readFrames reads protobuf messages, each after its length in four bytes, big-endian.
func readFrames(content []byte) ([]ptrace.Traces, error) {
	var messages []ptrace.Traces
	unmarshaler := &ptrace.ProtoUnmarshaler{}
	for len(content) > 0 {
		if len(content) < 4 || uint64(len(content)-4) < uint64(binary.BigEndian.Uint32(content)) {
			return nil, errors.New("the last message is cut off")
		}
		end := 4 + int(binary.BigEndian.Uint32(content))
		message, err := unmarshaler.UnmarshalTraces(content[4:end])
		if err != nil {
			return nil, err
		}
		messages = append(messages, message)
		content = content[end:]
	}
	return messages, nil
}

func eachSpan(message ptrace.Traces, see func(ptrace.Span)) {
	for _, resource := range message.ResourceSpans().All() {
		for _, scope := range resource.ScopeSpans().All() {
			for _, span := range scope.Spans().All() {
				see(span)
			}
		}
	}
}
