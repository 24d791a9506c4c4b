package schedule

import (
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
