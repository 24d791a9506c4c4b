package calls

import (
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"

	"github.com/taskengine/taskengine/plugins/internal/wire"
	"github.com/taskengine/taskengine/task"
)

// checker is a host that refuses each request, by the name of its type.
type checker struct{ err error }

func (checker) Progress(task.Progress)  {}
func (checker) Checkpoint([]byte) error { return nil }
func (checker) Log(slog.Record)         {}
func (c checker) Check(name string, requests []task.Request) (all []task.Refusal, err error) {
	for i, r := range requests {
		all = append(all, task.Refusal{Index: i, Reason: task.RefusedKey, Text: name + r.Type + "\xff" + strings.Repeat("x", 1000), ID: own})
	}
	return all, c.err
}

func shown(k *wire.Checked) (all []string) {
	for _, r := range k.GetRefusals() {
		all = append(all, fmt.Sprintf("%d %v %.12s", r.GetIndex(), r.GetReason(), r.GetMessage()))
	}
	return all
}

func question(types ...string) *wire.Check {
	k := &wire.Check{RunId: 7, Number: 3, Set: "page "}
	for _, typ := range types {
		k.Children = append(k.Children, &wire.Child{Type: typ})
	}
	return k
}

func TestAWorkerLearnsNothingOfTypesThatItMayNotAdd(t *testing.T) {
	forbidden := func(types ...string) error {
		if slices.Contains(types, "secret") {
			return errors.New("not for you")
		}
		return nil
	}
	got := Check(checker{}, question("a", "secret", "b", "secret"), &Rights{Adds: forbidden})
	want := []string{"0 REASON_KEY_TAKEN page a\uFFFDxxxxx", "1 REASON_FORBIDDEN not for you", "2 REASON_KEY_TAKEN page b\uFFFDxxxxx", "3 REASON_FORBIDDEN not for you"}
	if !slices.Equal(shown(got), want) || got.GetRunId() != 7 || got.GetNumber() != 3 {
		t.Errorf("the answer is %q, want %q", shown(got), want)
	}
	if len(got.GetRefusals()[0].GetMessage()) > 2*maxText {
		t.Error("a message is not cut")
	}
	if got := shown(Check(nil, question("a", "secret"), &Rights{Adds: forbidden})); !slices.Equal(got, []string{"1 REASON_FORBIDDEN not for you"}) {
		t.Errorf("without a checker the answer is %q", got)
	}
}

func TestAnAnswerToACheckIsBounded(t *testing.T) {
	got := Check(checker{}, question(make([]string, 3*maxRefusals)...), new(Rights))
	if n := len(got.GetRefusals()); n != maxRefusals || got.GetRefusals()[n-1].GetIndex() != maxRefusals-1 {
		t.Errorf("there are %d refusals", n)
	}
	got = Check(checker{err: errors.New("the store does not answer")}, question("a"), new(Rights))
	if got.GetError() != "the store does not answer" || got.GetRefusals() != nil {
		t.Errorf("the answer is %v", got)
	}
}

// The reasons have the numbers of the protocol.
func TestEachReasonHasANumberOfTheProtocol(t *testing.T) {
	for reason := task.RefusedInvalid; reason <= task.RefusedUnknown; reason++ {
		if got, want := wire.Refusal_Reason(reason).String(), "REASON_"+strings.ToUpper(reason.String()); got != want {
			t.Errorf("%v is %v, want %s", reason, got, want)
		}
	}
}
