package place

import (
	"fmt"
	"regexp"
	"strings"
)

var ofTask = regexp.MustCompile(`^(key|ordering_key|(payload|headers)(\.[A-Za-z0-9_-]+)+)$`)

// CheckTask returns an error if s does not name the place of a value in a task: key, ordering_key, headers.NAME or
// payload.NAME.
func CheckTask(s string) error {
	if !ofTask.MatchString(s) {
		return fmt.Errorf("%.40q is not a place in a task; write payload.NAME, headers.NAME, key or ordering_key", s)
	}
	return nil
}

// Task has the parts of a task that have places.
type Task struct {
	Key, OrderingKey string
	Headers          map[string]string
	Payload          []byte
}

// Bytes returns the value at a place, which is payload or one that [CheckTask] accepts: text as it is, and another JSON
// value of the payload as it is written there. A value that is missing, empty or null is nil. The result may be a part of
// the payload.
func (t Task) Bytes(place string) ([]byte, error) {
	part, rest, _ := strings.Cut(place, ".")
	switch {
	case place == "key":
		return notEmpty(t.Key), nil
	case place == "ordering_key":
		return notEmpty(t.OrderingKey), nil
	case part == "headers":
		return notEmpty(t.Headers[rest]), nil
	case place == "payload":
		if len(t.Payload) == 0 {
			return nil, nil
		}
		return t.Payload, nil
	case part != "payload":
		return nil, fmt.Errorf("%q is not a place in a task", place)
	}
	raw, err := at(t.Payload, strings.Split(rest, "."))
	if err != nil {
		return nil, fmt.Errorf("%s of the payload: %w", rest, err)
	}
	return written(raw)
}
