package server

import (
	"errors"
	"fmt"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
)

// strictJSON is the JSON of the API. It refuses a field that it does not know, since
// what is misspelled would otherwise be silently left out, and it writes fields that
// are zero, so that a script need not know about defaults.
type strictJSON struct{ name string }

// Name returns the content type that the codec is for.
func (c strictJSON) Name() string { return c.name }

// Marshal writes a message.
func (c strictJSON) Marshal(message any) ([]byte, error) {
	m, ok := message.(proto.Message)
	if !ok {
		return nil, fmt.Errorf("%T is not a message", message)
	}
	return protojson.MarshalOptions{EmitDefaultValues: true}.Marshal(m)
}

// Unmarshal reads a message.
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
