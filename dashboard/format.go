package dashboard

import (
	"fmt"
	"html/template"
	"net/url"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/taskengine/taskengine/internal/terminal"
	"github.com/taskengine/taskengine/internal/units"
)

// Bounds of texts on a page.
const (
	maxLine  = 300      // bytes of a text in a table
	maxBlock = 64 << 10 // bytes of a payload and the like
)

// functions returns the functions of templates.
func functions(base string) template.FuncMap {
	return template.FuncMap{
		"base":    func() string { return base },
		"path":    url.PathEscape, // of a name in an address: the templates themselves leave / ? # and % as they are
		"line":    func(s string) string { return cut(terminal.Line(s), maxLine) },
		"lines":   func(s string) string { return cut(terminal.Lines(s), maxBlock) },
		"time":    showTime,
		"span":    func(d *durationpb.Duration) string { return units.Span(d.AsDuration()) },
		"number":  number,
		"rate":    showRate,
		"delay":   showDelay,
		"short":   short,
		"kind":    func(s string) string { return s[:min(len(s), 8)] },
		"pace":    pace,
		"depth":   func(n uint32) uint32 { return min(n, 6) },
		"clock":   showClock,
		"local":   showLocal,
		"query":   func(terms ...string) string { return base + "tasks?q=" + url.QueryEscape(strings.Join(terms, "")) },
		"join":    strings.Join,
		"linked":  func(ids []string) []string { return ids[:min(len(ids), linkedTasks)] },
		"digits":  units.Digits,
		"percent": func(share float64) string { return fmt.Sprintf("%.0f %%", 100*share) },
		"seconds": time.Duration.Seconds,
		"moment":  func(t time.Time) template.HTML { return showTime(timestamppb.New(t)) },
		"grown":   func(rate, factor float64) float64 { return max(0, factor-1) * rate },
		"value":   filterValue,
	}
}

// cut returns at most so many bytes of a text.
func cut(s string, most int) string {
	if len(s) <= most {
		return s
	}
	end := most
	for end > 0 && !utf8.RuneStart(s[end]) {
		end--
	}
	return s[:end] + "… (" + number(len(s)-end) + " more bytes)"
}

// short returns the part of an id that is shown in tables: its random end, because ids of one moment begin alike.
func short(id string) string {
	if len(id) < 12 {
		return id
	}
	return id[len(id)-12:]
}

// number writes a whole number with thin spaces between thousands.
func number(n any) string {
	s := fmt.Sprint(n)
	if len(s) > 4 {
		for i := len(s) - 3; i > 0; i -= 3 {
			s = s[:i] + "\u202f" + s[i:]
		}
	}
	return s
}

// showTime writes a time. The script replaces it by its age, and gives the time in the zone of the browser when asked.
func showTime(t *timestamppb.Timestamp) template.HTML {
	if t == nil {
		return ""
	}
	at := t.AsTime()
	const still = "2006-01-02 15:04:05Z"
	return template.HTML(fmt.Sprintf(`<time datetime="%s">%s</time>`, at.Format(time.RFC3339Nano), at.Format(still)))
}

// showLocal writes a time, which the script gives in the zone of the browser.
func showLocal(t *timestamppb.Timestamp) template.HTML {
	return template.HTML(strings.Replace(string(showTime(t)), "<time ", "<time data-local ", 1))
}

// showClock writes the time of a log line.
func showClock(t *timestamppb.Timestamp) string { return t.AsTime().Format("2006-01-02 15:04:05.000Z") }

// showRate writes how often something happens in a second.
func showRate(perSecond float64) string {
	switch {
	case perSecond == 0:
		return "0"
	case perSecond < 0.001:
		return "< 0.001"
	case perSecond < 0.1:
		return strconv.FormatFloat(perSecond, 'g', 1, 64)
	case perSecond < 100:
		return strconv.FormatFloat(perSecond, 'f', 1, 64)
	}
	return number(int64(perSecond + 0.5))
}

// showDelay writes a delay in seconds.
func showDelay(seconds float64) string {
	switch d := time.Duration(seconds * float64(time.Second)); {
	case seconds <= 0:
		return "–"
	case d < time.Millisecond:
		return fmt.Sprintf("%d µs", d.Microseconds())
	case d < 10*time.Millisecond:
		return fmt.Sprintf("%.1f ms", seconds*1e3)
	case d < time.Second:
		return fmt.Sprintf("%.0f ms", seconds*1e3)
	default:
		return units.Span(d)
	}
}

// showDelayTick is showDelay for an axis that begins with 0.
func showDelayTick(seconds float64) string {
	if seconds == 0 {
		return "0"
	}
	return showDelay(seconds)
}

// filterValue returns a text as a value in a filter.
func filterValue(s string) string {
	if s != "" && !strings.ContainsAny(s, " \t\r\n\",*=<>~!") {
		return s
	}
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(s) + `"`
}

// shellWord returns a text as a word of a command line.
func shellWord(s string) string {
	isPlain := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("-_./:@%+,=", r)
	}
	if s != "" && strings.IndexFunc(s, func(r rune) bool { return !isPlain(r) }) < 0 {
		return s
	}
	return "'" + strings.ReplaceAll(terminal.Line(s), "'", `'\''`) + "'"
}

// commandLine returns a command of taskengine.
func commandLine(words ...string) string {
	line := "taskengine"
	for _, w := range words {
		line += " " + shellWord(w)
	}
	return line
}
