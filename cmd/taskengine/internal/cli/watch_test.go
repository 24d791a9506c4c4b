package cli

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/taskengine/taskengine/cmd/taskengine/internal/exit"
)

// watched runs looks every two seconds until the last one, on a terminal of some lines; 0 is none.
func watched(t *testing.T, height int, looks ...func(a *app) error) (text string, err error) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		a, out := onTerminal(80, "NO_COLOR=1")
		a.outTTY, a.height, a.stderr = height > 0, func() int { return height }, new(bytes.Buffer)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		i := 0
		w := &watch{app: a, every: watchEvery, look: func() error {
			if i++; i == len(looks) {
				cancel()
			}
			return looks[i-1](a)
		}}
		begin := time.Now()
		err = w.run(ctx)
		if took := time.Since(begin); err == nil && took != watchEvery*time.Duration(len(looks)-1) {
			t.Errorf("%d looks take %s", len(looks), took)
		}
		text = out.String()
	})
	return text, err
}

func says(text string) func(a *app) error {
	return func(a *app) error {
		a.note("about %s", text)
		_, err := fmt.Fprintln(a.stdout, text)
		return err
	}
}

func fails(code int) func(a *app) error {
	return func(*app) error { return exit.Errorf(code, "no node\x1b answers") }
}

func TestAWatchShowsTheNextLookInPlaceOfTheLast(t *testing.T) {
	text, err := watched(t, 24, says("one"), fails(exit.Unavailable), says("two"))
	frames := strings.Split(text, "\x1b[H")
	if err != nil || len(frames) != 4 || frames[0] != "\x1b[2J" {
		t.Fatalf("it writes %q: %v", text, err)
	}
	for i, want := range []string{"about one\x1b[K\none\x1b[K\n\x1b[J", "about one\x1b[K\none\x1b[K\n\x1b[K\nno node\\x1b answers\x1b[K\n\x1b[J", "about two\x1b[K\ntwo\x1b[K\n\x1b[J"} {
		head, rest, _ := strings.Cut(frames[i+1], "\x1b[K\n\x1b[K\n")
		if rest != want || !strings.Contains(head, "every 2s; Ctrl-C ends it") {
			t.Errorf("look %d is %q, want %q", i, frames[i+1], want)
		}
	}
}

func TestAWatchFitsIntoItsTerminal(t *testing.T) {
	text, err := watched(t, 6, says("1\n2\n3"))
	if err != nil || strings.Count(text, "\n") != 5 || !strings.Contains(text, "and 4 more lines") || strings.Contains(text, "\n3") {
		t.Errorf("it writes %q: %v", text, err)
	}
}

func TestAWatchWithoutATerminalWritesOneLookAfterTheOther(t *testing.T) {
	text, err := watched(t, 0, says("one"), says("two"))
	if want := "about one\none\n\nabout two\ntwo\n"; err != nil || text != want {
		t.Errorf("it writes %q, want %q: %v", text, want, err)
	}
}

func TestAWatchEndsIfTheFirstLookFails(t *testing.T) {
	if text, err := watched(t, 24, fails(exit.Unavailable)); exit.Code(err) != exit.Unavailable || text != "" {
		t.Errorf("it writes %q: %v", text, err)
	}
	text, err := watched(t, 24, func(a *app) error { _ = says("one")(a); return exit.With(exit.Partial, nil) }, says("two"))
	if err != nil || !strings.Contains(text, "two") {
		t.Errorf("if a node is silent: %q: %v", text, err)
	}
}
