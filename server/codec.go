package server

import (
	"errors"
	"fmt"
	"unicode/utf8"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	taskenginev1 "github.com/taskengine/taskengine/server/proto/taskengine/v1"
)

// strictJSON is the JSON codec of the API. It rejects unknown fields, because a misspelled field would be ignored
// otherwise. It writes fields that are zero, so that scripts need not know the defaults.
type strictJSON struct{ name string }

// Name returns the content type of the codec.
func (c strictJSON) Name() string { return c.name }

// Marshal encodes a message.
func (c strictJSON) Marshal(message any) ([]byte, error) {
	m, ok := message.(proto.Message)
	if !ok {
		return nil, fmt.Errorf("%T is not a message", message)
	}
	for _, t := range tasksIn(m) {
		t.PayloadText, t.ResultText = textOf(t.GetPayload()), textOf(t.GetResult())
		for _, s := range append(t.GetKeptSignals(), t.GetWokenSignal()) {
			if s != nil {
				s.DataText = textOf(s.GetData())
			}
		}
	}
	return protojson.MarshalOptions{EmitDefaultValues: true}.Marshal(m)
}

// tasksIn returns the tasks in a response that has payloads and results.
func tasksIn(m proto.Message) []*taskenginev1.Task {
	if one, ok := m.(interface{ GetTask() *taskenginev1.Task }); ok && one.GetTask() != nil {
		return []*taskenginev1.Task{one.GetTask()}
	}
	return nil
}

// textOf returns b as a string if it is valid UTF-8, and "" otherwise.
func textOf(b []byte) string {
	if !utf8.Valid(b) {
		return ""
	}
	return string(b)
}

// Unmarshal decodes a message.
func (c strictJSON) Unmarshal(text []byte, message any) error {
	m, ok := message.(proto.Message)
	if !ok {
		return fmt.Errorf("%T is not a message", message)
	}
	if len(text) == 0 {
		return errors.New("the body is empty; send a JSON object, {} at least")
	}
	return protojson.Unmarshal(text, m)
}
