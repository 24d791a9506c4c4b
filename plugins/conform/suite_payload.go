package conform

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"strconv"
	"strings"
	"time"

	"github.com/taskengine/taskengine/plugins/internal/wire"
)

// payloadChecks returns the checks of the task that a handler gets and of its result.
func payloadChecks() []check {
	return []check{
		in(wide, "echo", "bytes come and go unchanged", "echo: the result is the payload", seeEcho),
		in(wide, "json", "values come and go as JSON", `json: {"a":1,"b":2} -> {"sum":3}`, seeJSON),
		in(wide, "describe", "a handler sees every field of its task", "describe: the fields of the run, as JSON", seeDescribe),
		in(wide, "describe", "a handler sees that fields are empty", "describe: the fields of the run, as JSON", seeDescribeEmpty),
		in(wide, "big", "a result may be as large as the welcome allows", "big: a result of max_result_bytes is sent", seeBig),
		in(wide, "big", "a larger result is a permanent error of the class result_too_large",
			"a result may have at most max_result_bytes; answer a larger one with a permanent error of class result_too_large", seeTooBig),
	}
}

func seeEcho(s *session) error {
	every := make([]byte, 256)
	for i := range every {
		every[i] = byte(i)
	}
	for _, payload := range [][]byte{nil, []byte("hällo"), every, bytes.Repeat([]byte("0123456789"), 300_000)} {
		got, err := s.result("echo", payload)
		if err != nil {
			return err
		}
		if !bytes.Equal(got, payload) {
			return fmt.Errorf("of %d bytes, %.60q, came %d bytes, %.60q", len(payload), payload, len(got), got)
		}
	}
	return nil
}

func seeJSON(s *session) error {
	got, err := s.result("json", []byte(`{"a": 1, "b": 2}`))
	if err != nil {
		return err
	}
	var out struct{ Sum *float64 }
	if err := json.Unmarshal(got, &out); err != nil || out.Sum == nil || *out.Sum != 3 {
		return fmt.Errorf("the result is %.200q", got)
	}
	return nil
}

// described is the result of describe.
type described struct {
	ID          string            `json:"id"`
	Version     json.Number       `json:"version"`
	Type        string            `json:"type"`
	Attempt     uint32            `json:"attempt"`
	Crashes     uint32            `json:"crashes"`
	Priority    uint32            `json:"priority"`
	Key         string            `json:"key"`
	OrderingKey string            `json:"ordering_key"`
	Headers     map[string]string `json:"headers"`
	Payload     []byte            `json:"payload"`
	TimeLeftUS  int64             `json:"time_left_us"`
	Checkpoint  []byte            `json:"checkpoint"`
}

func seeDescribe(s *session) error {
	run := &wire.Run{
		TaskId:  []byte{0x01, 0x23, 0x45, 0x67, 0x89, 0xab, 0x7c, 0xde, 0x8f, 0x01, 0x23, 0x45, 0x67, 0x89, 0xab, 0xcd},
		Version: 1<<64 - 1, Type: "describe", Attempt: 3, Crashes: 2, Priority: 9, Key: "kéy 🔑", OrderingKey: "ordering kéy",
		Payload: []byte{0, 0xff, '"'}, Checkpoint: []byte{1, 0, 0xfe}, TimeLeft: time.Hour.Microseconds(),
		Headers: map[string]string{"traceparent": "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01", "ünicode": "✓", "empty": ""},
	}
	return s.describe(run, "01234567-89ab-7cde-8f01-23456789abcd")
}

func seeDescribeEmpty(s *session) error {
	return s.describe(&wire.Run{TaskId: []byte{15: 1}, Version: 1, Type: "describe", Attempt: 1}, "00000000-0000-0000-0000-000000000001")
}

// describe compares the task as the handler describes it with the run that was sent.
func (s *session) describe(run *wire.Run, id string) error {
	f, err := s.do(run)
	if err != nil {
		return err
	}
	raw, err := resultOf(f)
	if err != nil {
		return err
	}
	var got described
	if err := json.Unmarshal(raw, &got); err != nil {
		return fmt.Errorf("the result %.400q is not as it should be: %w", raw, err)
	}
	if got.TimeLeftUS > run.GetTimeLeft() || got.TimeLeftUS < run.GetTimeLeft()-time.Minute.Microseconds() {
		return fmt.Errorf("time_left_us is %d, of %d that the run has", got.TimeLeftUS, run.GetTimeLeft())
	}
	return differences(got, described{
		ID: id, Version: json.Number(strconv.FormatUint(run.GetVersion(), 10)), Type: run.GetType(), Attempt: run.GetAttempt(),
		Crashes: run.GetCrashes(), Priority: run.GetPriority(), Key: run.GetKey(), OrderingKey: run.GetOrderingKey(),
		Headers: run.GetHeaders(), Payload: run.GetPayload(), Checkpoint: run.GetCheckpoint(),
	})
}

func differences(got, want described) error {
	var wrong []string
	for _, f := range []struct {
		name      string
		same      bool
		got, want any
	}{
		{"id", got.ID == want.ID, got.ID, want.ID},
		{"version", got.Version == want.Version, got.Version, want.Version},
		{"type", got.Type == want.Type, got.Type, want.Type},
		{"attempt", got.Attempt == want.Attempt, got.Attempt, want.Attempt},
		{"crashes", got.Crashes == want.Crashes, got.Crashes, want.Crashes},
		{"priority", got.Priority == want.Priority, got.Priority, want.Priority},
		{"key", got.Key == want.Key, got.Key, want.Key},
		{"ordering_key", got.OrderingKey == want.OrderingKey, got.OrderingKey, want.OrderingKey},
		{"headers", maps.Equal(got.Headers, want.Headers), got.Headers, want.Headers},
		{"payload", bytes.Equal(got.Payload, want.Payload), got.Payload, want.Payload},
		{"checkpoint", bytes.Equal(got.Checkpoint, want.Checkpoint), got.Checkpoint, want.Checkpoint},
	} {
		if !f.same {
			wrong = append(wrong, fmt.Sprintf("%s is %v, wanted is %v", f.name, f.got, f.want))
		}
	}
	if len(wrong) > 0 {
		return errors.New(strings.Join(wrong, "; "))
	}
	return nil
}

func seeBig(s *session) error {
	got, err := s.result("big", fmt.Append(nil, maxResult))
	if err != nil {
		return err
	}
	if len(got) != maxResult || bytes.Trim(got, "x") != nil {
		return fmt.Errorf("the result has %d bytes, and begins with %.20q", len(got), got)
	}
	return nil
}

func seeTooBig(s *session) error {
	e, err := s.failure("big", fmt.Sprint(maxResult+1))
	if err != nil {
		return err
	}
	if !e.GetPermanent() || e.GetClass() != "result_too_large" {
		return fmt.Errorf("the error is {%.300v}", e)
	}
	return nil
}
