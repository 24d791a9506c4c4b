package schedule

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/taskengine/taskengine/task"
)

// Placeholders are the words that the payload of a [Template] may have in double braces, such as {{date}}. Each stands for
// a fact about the fire: its time, by the clock of the schedule's zone, or its identity. Other text is kept as it is.
var Placeholders = [...]string{"time", "time_utc", "date", "clock", "unix", "schedule", "id"}

// fact returns the value of a placeholder.
func fact(word, name string, id task.ID, at time.Time) (string, bool) {
	switch word {
	case "time":
		return at.Format(time.RFC3339), true
	case "time_utc":
		return at.UTC().Format(time.RFC3339), true
	case "date":
		return at.Format(time.DateOnly), true
	case "clock":
		return at.Format(time.TimeOnly), true
	case "unix":
		return strconv.FormatInt(at.Unix(), 10), true
	case "schedule":
		return name, true
	case "id":
		return id.String(), true
	}
	return "", false
}

// searched returns the part of the payload that is searched for placeholders: all of it, but of the payload of a workflow with a definition of
// its own the input only.
func (t *Template) searched() string {
	if spec := t.spec(); spec != nil {
		return string(spec["input"])
	}
	return t.Payload
}

// spec returns the parts of the payload of a workflow that has its definition in it; nil for another task.
func (t *Template) spec() (spec map[string]json.RawMessage) {
	if t.Type != task.WorkflowType || json.Unmarshal([]byte(t.Payload), &spec) != nil {
		return nil
	}
	return spec
}

// payload returns the payload of the task of a fire.
func (t *Template) payload(name string, id task.ID, at time.Time) []byte {
	spec := t.spec()
	if spec == nil {
		return []byte(fill(t.Payload, name, id, at))
	}
	if input, has := spec["input"]; has {
		spec["input"] = json.RawMessage(fill(string(input), name, id, at))
	}
	return encode(spec)
}

// fill returns text with its placeholders filled in.
func fill(text, name string, id task.ID, at time.Time) string {
	var b strings.Builder
	for {
		before, word, after, found := nextPlaceholder(text)
		if !found {
			b.WriteString(text)
			return b.String()
		}
		b.WriteString(before)
		value, _ := fact(word, name, id, at) // checkPlaceholders has found no other word
		b.WriteString(value)
		text = after
	}
}

// nextPlaceholder finds the first pair of double braces with a single word in it.
func nextPlaceholder(text string) (before, word, after string, found bool) {
	for from := 0; ; {
		open := strings.Index(text[from:], "{{")
		if open < 0 {
			return "", "", "", false
		}
		open += from
		end := strings.Index(text[open:], "}}")
		if end < 0 {
			return "", "", "", false
		}
		if word = strings.TrimSpace(text[open+2 : open+end]); isWord(word) {
			return text[:open], word, text[open+end+2:], true
		}
		from = open + 1 // such as {"a":{"b":1}}, which has no placeholder
	}
}

func isWord(s string) bool {
	for _, r := range s {
		if r != '_' && (r < 'a' || r > 'z') {
			return false
		}
	}
	return s != ""
}

// checkPlaceholders returns an error if text has a placeholder that does not exist.
func checkPlaceholders(text string) error {
	for {
		_, word, after, found := nextPlaceholder(text)
		if !found {
			return nil
		}
		if _, known := fact(word, "", task.ID{}, time.Time{}); !known {
			return fmt.Errorf("payload has the placeholder {{%s}}, which does not exist; there are {{%s}}", word, strings.Join(Placeholders[:], "}}, {{"))
		}
		text = after
	}
}
