package cli

import (
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	taskenginev1 "github.com/taskengine/taskengine/server/proto/taskengine/v1"
)

func TestAnEventIsALine(t *testing.T) {
	at := timestamppb.New(time.Date(2026, 11, 29, 3, 0, 0, 0, time.UTC))
	a, out := onTerminal(80)
	err := a.showGap(&taskenginev1.EventGap{From: at, Until: at, Text: "it was away\x1b"})
	if err == nil {
		err = a.showEvent(&taskenginev1.TaskEvent{Task: &taskenginev1.Task{Id: anID, Type: "mail", State: "error", Key: "k", Error: "no\nroom"}, At: at, FromStore: true})
	}
	want := "2026-11-29T03:00:00.000Z  changes since 2026-11-29T03:00:00.000Z may be missing: it was away\\x1b\n" +
		"2026-11-29T03:00:00.000Z  error       " + anID + "  mail key=k (from the store)  no\\nroom\n"
	if err != nil || out.String() != want {
		t.Errorf("%q, want %q, %v", out, want, err)
	}
}
