package retry_test

import (
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/taskengine/taskengine/coord/internal/reason"
	"github.com/taskengine/taskengine/coord/internal/retry"
)

func TestAnOutageIsLoggedOnceForEachReason(t *testing.T) {
	var text strings.Builder
	o := retry.NewOutage(slog.New(slog.NewTextHandler(&text, nil)), "etcd")
	logged := func(what string, lines int, words string) {
		t.Helper()
		if n := strings.Count(text.String(), "\n"); n != lines || !strings.Contains(text.String(), words) {
			t.Errorf("%s: the log has %d lines, want %d with %q:\n%s", what, n, lines, words, text.String())
		}
		text.Reset()
	}
	full := fmt.Errorf("change 2 cells: %w", &reason.Error{What: "etcd is full", Cause: errors.New("no space")})
	o.Failed("renewing", errors.New("silence"))
	logged("the first failure", 1, "silence")
	o.Failed("changing", errors.New("another silence"))
	logged("a second failure", 0, "")
	o.Failed("changing", full)
	logged("a reason", 1, "etcd is full")
	o.Failed("changing", full)
	logged("the same reason", 0, "")
	o.Worked("renewing")
	o.Worked("changing")
	logged("the end", 1, "again")
	o.Failed("changing", full)
	logged("the reason of another outage", 1, "etcd is full")
}
