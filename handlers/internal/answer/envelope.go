package answer

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"slices"
	"time"
	"unicode/utf8"

	"github.com/taskengine/taskengine/task"
)

// Content types of the two documents.
const (
	ContentType  = "application/vnd.taskengine.answer+json"
	EnvelopeType = "application/vnd.taskengine.task+json"
)

// Envelope returns the document that describes an attempt of t.
func Envelope(t *task.Task) ([]byte, error) {
	e := map[string]any{
		"id": t.ID.String(), "type": t.Type, "version": t.Version, "attempt": t.Attempt, "priority": t.Priority,
	}
	setText(e, "key", t.Key)
	setText(e, "ordering_key", t.OrderingKey)
	if len(t.Headers) > 0 {
		e["headers"] = t.Headers
	}
	setContent(e, "payload", t.Payload)
	if kept := t.Checkpoint(); len(kept) > 0 {
		setContent(e, "checkpoint", kept)
	}
	if wake := t.Woken(); wake.By != task.NotWoken {
		e["woken_by"] = wake.By.String()
		if wake.By == task.BySignal {
			s := map[string]any{"id": wake.Signal.ID.String(), "name": wake.Signal.Name, "at": wake.Signal.At.UTC().Format(time.RFC3339Nano)}
			setContent(s, "data", wake.Signal.Data)
			e["woken_signal"] = s
		}
	}
	if p := t.Parent; p != nil {
		e["parent"] = map[string]any{"id": p.ID.String(), "name": p.Name, "index": p.Index}
	}
	if t.Children != nil {
		sets := make(map[string]any, len(t.Children.Sets))
		for _, s := range t.Children.Sets {
			sets[s.Name] = map[string]uint32{"added": s.Added, "done": s.Done, "failed": s.Failed, "cancelled": s.Cancelled}
		}
		e["children"] = sets
	}
	var b bytes.Buffer
	w := json.NewEncoder(&b)
	w.SetEscapeHTML(false)
	if err := w.Encode(e); err != nil {
		return nil, fmt.Errorf("describe the task as JSON: %w", err)
	}
	return b.Bytes(), nil
}

func setText(to map[string]any, name, value string) {
	if value != "" {
		to[name] = value
	}
}

// setContent sets the fields of data: as text and, if it is JSON, as the value; as base64 if it is no text.
func setContent(to map[string]any, name string, data []byte) {
	if !utf8.Valid(data) {
		to[name+"_base64"] = base64.StdEncoding.EncodeToString(data)
		return
	}
	to[name+"_text"] = string(data)
	// Two levels stand around the data in the document, and readers of JSON bound the depth.
	if json.Valid(slices.Concat([]byte("[["), data, []byte("]]"))) && json.Valid(data) {
		to[name] = json.RawMessage(data)
	}
}
