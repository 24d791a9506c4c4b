//go:build unix

package handlers_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/taskengine/taskengine/handlers"
	"github.com/taskengine/taskengine/task"
)

// answering lets a command answer with up to so many bytes, and add tasks of the type page.
func answering(most int) func(*handlers.ExecConfig) {
	return func(c *handlers.ExecConfig) { c.MaxAnswer, c.MayAdd = most, []string{"page"} }
}

// says is a command of sh that writes a document.
func says(document string) string { return `echo '` + document + `' >&"$TASKENGINE_ANSWER_FD"` + "\n" }

func TestACommandSaysHowItsAttemptEnds(t *testing.T) {
	retry := func(class string) task.Verdict {
		return task.Verdict{Outcome: task.Errored, Class: class, Delay: -1}
	}
	never := func(class string) task.Verdict {
		return task.Verdict{Outcome: task.Errored, Class: class, Delay: -1, GiveUp: true}
	}
	waits := task.Verdict{Outcome: task.Completed, Await: []string{"paid"}}
	with := func(v task.Verdict, result string) task.Verdict { v.Result = []byte(result); return v }
	const wait, failure = `{"wait": {"signals": ["paid"]}}`, `{"error": {"message": "no stock", "class": "stock"}}`
	for script, want := range map[string]task.Verdict{
		says(wait):                   waits,
		says(wait) + "printf out":    with(waits, "out"),
		"printf out\n" + says(wait):  with(waits, "out"),
		says(`{"result_text": "r"}`): {Outcome: task.Completed, Result: []byte("r")},
		says(`{"result_text": "r"}`) + "head -c 5000000 /dev/zero":                   {Outcome: task.Completed, Result: []byte("r")}, // the output is not the result
		says(wait) + "head -c 5000000 /dev/zero":                                     never(""),
		`sh -c 'printf "{\"wait\"" >&3'; ` + `printf ': {"signals": ["paid"]}}' >&3`: waits, // by several processes, in parts
		says(`{"tasks": [{"type": "page"}]}`):                                        {Outcome: task.Completed, Rerun: &task.Rerun{Tasks: []task.Request{{Type: "page"}}}},

		// An exit code that is not 0 is a failure. The document can only say which.
		says(failure):                                  retry("stock"),
		says(failure) + "exit 1":                       retry("stock"),
		says(failure) + "exit 65":                      never("stock"),
		says(failure) + "exit 137":                     {Outcome: task.Errored, Class: "exit_137", Delay: -1, InDoubt: true},
		says(failure) + "kill -9 $$":                   {Outcome: task.Crashed, Delay: -1},
		says(failure) + "printf out":                   retry("stock"),
		says(wait) + "exit 1":                          retry("exit_1"),
		says(wait) + "exit 64":                         never("exit_64"),
		says(wait) + "kill -9 $$":                      {Outcome: task.Crashed, Delay: -1},
		says("nothing") + "exit 75":                    retry("exit_75"),
		says(`{"error": {"message": "m"}}`) + "exit 3": retry("exit_3"),

		says(""):                             never("answer_refused"),
		says("{"):                            never("answer_refused"),
		says(wait + wait):                    never("answer_refused"),
		says(`{"tasks": [{"type": "pay"}]}`): never("answer_refused"),
		`exec 3>&-; echo ok`:                 {Outcome: task.Completed, Result: []byte("ok\n")},
		`: >&3`:                              {Outcome: task.Completed},
	} {
		t.Run(script, func(t *testing.T) {
			got := verdict(shell(t, script, answering(1<<20)).Handle(t.Context(), newTask("")))
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
}

func TestACommandThatMayNotAnswerHasNoDescriptor(t *testing.T) {
	got, err := shell(t, `echo "$TASKENGINE_ANSWER_FD"; if echo '{}' 2>/dev/null >&3; then echo open; fi`).Handle(t.Context(), newTask(""))
	if err != nil || string(got) != "\n" {
		t.Errorf("got %q, %v", got, err)
	}
}

func TestAnAnswerOfAnySizeUpToItsLimitIsRead(t *testing.T) {
	const most = 3 << 20
	script := `printf '{"result_text": "' >&3; head -c %d /dev/zero | tr '\0' x >&3; printf '"}' >&3`
	frame := len(`{"result_text": ""}`)
	got, err := shell(t, fmt.Sprintf(script, most-frame), answering(most)).Handle(t.Context(), newTask(""))
	if err != nil || string(got) != strings.Repeat("x", most-frame) {
		t.Errorf("a document of the largest size gives %d bytes, %v", len(got), err)
	}
	_, err = shell(t, fmt.Sprintf(script, most-frame+1), answering(most)).Handle(t.Context(), newTask(""))
	if v := task.VerdictOf(nil, err); !v.GiveUp || v.Class != "answer_refused" || !strings.Contains(v.Error, "more than 3145728 bytes; write less or raise max_answer") {
		t.Errorf("a larger one gives %+v", v)
	}
	// A command that writes without end is not kept from its end.
	_, err = shell(t, `yes >&3 & head -c 1000000 /dev/zero >&3`, answering(1000)).Handle(t.Context(), newTask(""))
	if v := verdict(nil, err); v.Class != "answer_refused" {
		t.Errorf("an endless one gives %+v", v)
	}
}

func TestARefusedAnswerIsInTheLogWithTheReason(t *testing.T) {
	n := new(notebook)
	ctx := context.WithValue(t.Context(), task.ReporterKey{}, n)
	const document = `{"agian": {"delay": "5m"}}`
	_, err := shell(t, says(document), answering(1<<20)).Handle(ctx, newTask(""))
	const reason = "agian is no field; did you mean again?"
	if v := task.VerdictOf(nil, err); v.Error != "sh: exit code 0: its answer is refused, and the work was done: "+reason || !v.GiveUp {
		t.Errorf("the attempt ends as %+v", v)
	}
	_, err = shell(t, says(`{"again": {"delay": "5m"}}`)+"exit 3", answering(1<<20)).Handle(ctx, newTask(""))
	if v := task.VerdictOf(nil, err); v.Class != "exit_3" {
		t.Errorf("the attempt ends as %+v", v)
	}
	want := []string{
		`ERROR the answer was refused from=sh: exit code 0 reason=` + reason + ` bytes=27 answer=` + document + "\n",
		`ERROR the answer was refused from=sh: exit code 3 reason=with an exit code other than 0 only an error counts bytes=27 answer={"again": {"delay": "5m"}}` + "\n",
	}
	if diff := cmp.Diff(want, n.lines); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

func TestTheAnswerOfACommandThatWasAskedToEndDoesNotCount(t *testing.T) {
	script, wait := started(t, says(`{"result_text": "r"}`)+`trap 'exit 0' TERM`, "sleep 1000 & wait")
	ctx, stop := context.WithCancelCause(t.Context())
	defer stop(nil)
	var result []byte
	var err error
	var running sync.WaitGroup
	running.Go(func() { result, err = shell(t, script, answering(1<<20)).Handle(ctx, newTask("")) })
	wait()
	stop(errStop)
	running.Wait()
	if v := task.VerdictOf(nil, err); result != nil || !v.InDoubt || v.Outcome != task.Errored {
		t.Errorf("got %q, %+v", result, v)
	}
}

func TestACommandLearnsWhatHasEndedItsWait(t *testing.T) {
	woken := newTask(`{"n": 1}`)
	large := strings.Repeat("x", 4<<20) // more than an environment holds
	woken.Notes = task.NewNotes(task.Progress{}, []byte("asked"))
	woken.Signals = &task.Signals{Wake: task.Wake{By: task.BySignal, Signal: task.Signal{
		ID: woken.ID, Name: "paid", At: time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC), Data: []byte(large),
	}}}
	woken.Children = &task.Children{Sets: []task.ChildSet{{Name: "page", Added: 3, Done: 2, Failed: 1}}}
	const script = `printf '%s|' "$TASKENGINE_WOKEN_BY" "$TASKENGINE_SIGNAL_NAME" "$TASKENGINE_SIGNAL_ID" "$TASKENGINE_SIGNAL_AT"; cat`
	const facts = "signal|paid|0190a6f0-7c3e-7cc0-8b5e-3f1d2c4b5a69|2026-11-29T12:00:00Z|"
	got, err := shell(t, script).Handle(t.Context(), woken)
	if err != nil || string(got) != facts+`{"n": 1}` {
		t.Errorf("got %q, %v", got, err)
	}
	got, err = shell(t, script, func(c *handlers.ExecConfig) { c.Input, c.MaxOutput = handlers.Envelope, 8<<20 }).Handle(t.Context(), woken)
	want := facts + `{"attempt":2,"checkpoint_text":"asked","children":{"page":{"added":3,"cancelled":0,"done":2,"failed":1}},` +
		`"id":"0190a6f0-7c3e-7cc0-8b5e-3f1d2c4b5a69","key":"k 1","payload":{"n":1},"payload_text":"{\"n\": 1}","priority":0,"type":"report","version":3,` +
		`"woken_by":"signal","woken_signal":{"at":"2026-11-29T12:00:00Z","data_text":"` + large + `","id":"0190a6f0-7c3e-7cc0-8b5e-3f1d2c4b5a69","name":"paid"}}` + "\n"
	if err != nil || string(got) != want {
		t.Errorf("got %.1000q, %v", got, err)
	}
}

func TestManyCommandsAtOnceDoNotMixTheirAnswers(t *testing.T) {
	h := shell(t, `printf '{"result_text": "' >&3; tr -d '\n' >&3; printf '"}' >&3`, answering(1<<20))
	var running sync.WaitGroup
	for i := range 40 {
		running.Go(func() {
			want := strings.Repeat(fmt.Sprint(i, " "), 30_000)
			if got, err := h.Handle(t.Context(), newTask(want)); err != nil || string(got) != want {
				t.Errorf("%d: got %d bytes, %v", i, len(got), err)
			}
		})
	}
	running.Wait()
}
