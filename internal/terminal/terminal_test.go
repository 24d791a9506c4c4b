package terminal_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/slogtest"
	"time"
	"unicode"
	"unicode/utf8"

	"pgregory.net/rapid"

	"github.com/taskengine/taskengine/internal/terminal"
)

// hostile is text of everything that is not shown as it is, and some that is.
var hostile = rapid.StringOfN(rapid.OneOf(
	rapid.RuneFrom([]rune("\x1b\x07\x00\x7f\u009b\u0085\u202e\u2066\u200b\u2028\ufeff\\x1b[2J;\n\t\r\"= äπ界👩")), rapid.Rune()), 0, 30, -1)

func obeyed(r rune) bool { return unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r) }

func TestControlCharactersAreShownAndNotObeyed(t *testing.T) {
	for in, want := range map[string]string{
		"plain äöü 界 👩‍👩‍👦": "plain äöü 界 👩‍👩‍👦",
		"\x1b]0;title\x07":  `\x1b]0;title\a`,
		"a\r\nb\tc":         `a\r\nb\tc`,
		"\u009b2J":          `\u009b2J`,
		"abc\u202egnp.exe":  `abc\u202egnp.exe`,
		"\xff\xfe":          `\xff\xfe`,
		`C:\x1b\n`:          `C:\x1b\n`,
		"\ufffd":            "\ufffd",
		"one\u00a0space":    "one\u00a0space",
	} {
		if got := terminal.Line(in); got != want {
			t.Errorf("%q is shown as %q, want %q", in, got, want)
		}
	}
	if got, want := terminal.Lines("a\tb\nc\x1b\r\n"), "a\tb\nc\\x1b\\r\n"; got != want {
		t.Errorf("lines are shown as %q, want %q", got, want)
	}
	rapid.Check(t, func(t *rapid.T) {
		in := hostile.Draw(t, "text")
		got := terminal.Line(in)
		if strings.ContainsFunc(got, obeyed) || !utf8.ValidString(got) {
			t.Fatalf("%q is shown as %q", in, got)
		}
		if terminal.Line(got) != got {
			t.Fatalf("%q is not shown as itself", got)
		}
	})
}

func TestJSONForATerminalHasTheSameValue(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in := map[string]string{hostile.Draw(t, "key"): hostile.Draw(t, "text")}
		var out bytes.Buffer
		e := json.NewEncoder(terminal.JSONWriter(&out))
		e.SetEscapeHTML(false)
		if err := e.Encode(in); err != nil {
			t.Fatal(err)
		}
		if strings.ContainsFunc(strings.TrimSuffix(out.String(), "\n"), obeyed) {
			t.Fatalf("a terminal obeys %q", out.String())
		}
		var got map[string]string
		if err := json.Unmarshal(out.Bytes(), &got); err != nil {
			t.Fatalf("%q: %v", out.String(), err)
		}
		for k, v := range in {
			if got[k] != v {
				t.Fatalf("%q became %q", in, got)
			}
		}
	})
}

func TestNoRecordMakesATerminalDoAnything(t *testing.T) {
	var out bytes.Buffer
	plain := slog.New(terminal.NewHandler(&out, terminal.Options{}))
	rapid.Check(t, func(t *rapid.T) {
		out.Reset()
		text := hostile.Draw(t, "text")
		plain.With(text, text).WithGroup(text).Error(text, text, text, "error", errors.New(text), "bytes", []byte(text),
			"any", map[string]string{text: text}, slog.Group(text, text, text))
		line, ended := strings.CutSuffix(out.String(), "\n")
		if !ended || strings.ContainsFunc(line, obeyed) {
			t.Fatalf("the line is %q", out.String())
		}
	})
	// All sequences in colours are from the handler.
	out.Reset()
	slog.New(terminal.NewHandler(&out, terminal.Options{Colour: true})).Info("m", "k", `\x1b[2J`, "l", "\x1b[2J", "n", `a \x1b[2J`)
	if got := strings.Count(out.String(), "\x1b"); got != 10 { // two each for the time, the level and three keys
		t.Errorf("there are %d escape characters, want 10: %q", got, out.String())
	}
}

func TestRecordsAreLinesForPeople(t *testing.T) {
	var out bytes.Buffer
	h := terminal.NewHandler(&out, terminal.Options{Level: slog.LevelDebug})
	r := slog.NewRecord(time.Date(2026, 1, 2, 3, 4, 5, 6e6, time.UTC), slog.LevelWarn+1, "it's slow", 0)
	r.AddAttrs(slog.String("a", "x"), slog.String("b", "x y"), slog.Duration("took", 1500*time.Millisecond),
		slog.Group("g", slog.Int("n", 1)), slog.String("empty", ""), slog.Time("at", time.Unix(0, 0).UTC()))
	if err := h.WithGroup("w").WithAttrs([]slog.Attr{slog.Bool("ok", true)}).Handle(t.Context(), r); err != nil {
		t.Fatal(err)
	}
	want := "03:04:05.006 WRN+1 it's slow w.ok=true w.a=x w.b=\"x y\" w.took=1.5s w.g.n=1 w.empty=\"\" w.at=1970-01-01T00:00:00.000Z\n"
	if out.String() != want {
		t.Errorf("the line is\n%s, want\n%s", out.String(), want)
	}
}

func TestTheHandlerIsAHandler(t *testing.T) {
	var out bytes.Buffer
	slogtest.Run(t, func(*testing.T) slog.Handler {
		out.Reset()
		return terminal.NewHandler(&out, terminal.Options{})
	}, func(t *testing.T) map[string]any { return parse(t, out.String()) })
}

// parse reads a line as slogtest wants it: groups are objects.
func parse(t *testing.T, line string) map[string]any {
	all := map[string]any{}
	rest := strings.TrimSuffix(line, "\n")
	if _, err := time.Parse(time.TimeOnly+".000", rest[:min(len(rest), 12)]); err == nil {
		all[slog.TimeKey] = time.Now()
		rest = rest[13:]
	}
	all[slog.LevelKey], rest, _ = strings.Cut(rest, " ")
	message, rest, _ := strings.Cut(rest, " ")
	all[slog.MessageKey] = message
	for _, field := range strings.Fields(rest) {
		key, value, ok := strings.Cut(field, "=")
		if !ok {
			t.Fatalf("%q in %q is no attribute", field, line)
		}
		in := all
		names := strings.Split(key, ".")
		for _, group := range names[:len(names)-1] {
			if in[group] == nil {
				in[group] = map[string]any{}
			}
			in = in[group].(map[string]any)
		}
		in[names[len(names)-1]] = value
	}
	return all
}
