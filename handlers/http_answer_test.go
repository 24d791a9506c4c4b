//go:build unix

package handlers_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/taskengine/taskengine/handlers"
	"github.com/taskengine/taskengine/task"
)

func TestAServerSaysHowTheAttemptEnds(t *testing.T) {
	never := func(class string) task.Verdict {
		return task.Verdict{Outcome: task.Errored, Class: class, Delay: -1, GiveUp: true}
	}
	const wait = `{"wait": {"signals": ["paid"]}, "result": {"n": 1}}`
	waits := task.Verdict{Outcome: task.Completed, Result: []byte(`{"n": 1}`), Await: []string{"paid"}}
	plain := task.Verdict{Outcome: task.Completed, Result: []byte(wait)}
	for _, test := range []struct {
		code           int
		kind, document string
		want           task.Verdict
	}{
		{200, handlers.AnswerType, wait, waits},
		{202, "Application/VND.taskengine.Answer+JSON; charset=utf-8", wait, waits},
		{200, handlers.AnswerType + "; charset", wait, waits},
		{200, "application/json", wait, plain},
		{200, "", wait, plain},
		{200, handlers.AnswerType + "x", wait, plain},
		{200, "text/plain, " + handlers.AnswerType, wait, plain},
		{200, handlers.AnswerType, `{}`, task.Verdict{Outcome: task.Completed}},
		{200, handlers.AnswerType, `{"tasks": [{"type": "page"}]}`, task.Verdict{Outcome: task.Completed, Rerun: &task.Rerun{Tasks: []task.Request{{Type: "page"}}}}},
		{200, handlers.AnswerType, `{"tasks": [{"type": "pay"}]}`, never("answer_refused")},
		{200, handlers.AnswerType, `{"signals": [{"type": "page", "key": "k", "name": "n"}]}`, never("answer_refused")},
		{200, handlers.AnswerType, `{"error": {"message": "no stock", "class": "stock", "permanent": true}}`, never("stock")},
		{200, handlers.AnswerType, ``, never("answer_refused")},
		{200, handlers.AnswerType, `{"agian": 1}`, never("answer_refused")},
		{200, handlers.AnswerType, `{"result_text": "` + strings.Repeat("x", 1<<20) + `"}`, never("")}, // more than max_response
		{503, handlers.AnswerType, wait, task.Verdict{Outcome: task.Errored, Class: "http_503", Delay: -1}},
		{422, handlers.AnswerType, `{"error": {"message": "no stock"}}`, never("http_422")},
	} {
		t.Run(fmt.Sprint(test.code, test.kind, test.document[:min(len(test.document), 50)]), func(t *testing.T) {
			h := sending(t, func(w http.ResponseWriter, _ *http.Request) {
				w.Header()["Content-Type"] = []string{test.kind}
				w.WriteHeader(test.code)
				io.WriteString(w, test.document)
			}, func(c *handlers.HTTPConfig) { c.MayAdd = []string{"page"} })
			if diff := cmp.Diff(test.want, verdict(h.Handle(t.Context(), newTask("")))); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
}

func TestARefusedResponseIsInTheLogWithTheReason(t *testing.T) {
	n := new(notebook)
	document := `{"wiat": "` + strings.Repeat("x", 10_000) + `"}`
	h := sending(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", handlers.AnswerType)
		io.WriteString(w, document)
	})
	_, err := h.Handle(context.WithValue(t.Context(), task.ReporterKey{}, n), newTask(""))
	if v := task.VerdictOf(nil, err); !strings.Contains(v.Error, "answered 200 OK: its answer is refused, and the work was done: wiat is no field; did you mean wait?") {
		t.Errorf("the attempt ends as %+v", v)
	}
	if len(n.lines) != 1 || !strings.Contains(n.lines[0], "answered 200 OK reason=wiat is no field") || !strings.HasSuffix(n.lines[0], "bytes=10012 answer="+document[:4096]) {
		t.Errorf("logged: %.300q", n.lines)
	}
}

func TestAnAnswerThatIsCutOffIsInDoubt(t *testing.T) {
	h := sending(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", handlers.AnswerType)
		w.Header().Set("Content-Length", "1000")
		io.WriteString(w, `{"result": 1}`)
	})
	if v := verdict(h.Handle(t.Context(), newTask(""))); v.GiveUp || !v.InDoubt || v.Class != "network" {
		t.Errorf("the attempt ends as %+v", v)
	}
}

func TestTheRequestHasWhatHasEndedTheWait(t *testing.T) {
	woken := newTask(`{"n": 1}`)
	woken.Headers = map[string]string{"content-type": "application/json"}
	woken.Signals = &task.Signals{Wake: task.Wake{By: task.BySignal, Signal: task.Signal{
		ID: woken.ID, Name: "bezahlt ä", At: time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC), Data: []byte(`"4 EUR"`),
	}}}
	for _, envelope := range []bool{false, true} {
		var header http.Header
		var body string
		h := sending(t, func(_ http.ResponseWriter, r *http.Request) {
			content, _ := io.ReadAll(r.Body)
			header, body = r.Header.Clone(), string(content)
		}, func(c *handlers.HTTPConfig) { c.Envelope = envelope })
		if _, err := h.Handle(t.Context(), woken); err != nil {
			t.Fatal(err)
		}
		want, kind := `{"n": 1}`, "application/json"
		if envelope {
			kind = handlers.EnvelopeType
			want = `{"attempt":2,"headers":{"content-type":"application/json"},"id":"0190a6f0-7c3e-7cc0-8b5e-3f1d2c4b5a69","key":"k 1","payload":{"n":1},"payload_text":"{\"n\": 1}","priority":0,"type":"report","version":3,` +
				`"woken_by":"signal","woken_signal":{"at":"2026-11-29T12:00:00Z","data":"4 EUR","data_text":"\"4 EUR\"","id":"0190a6f0-7c3e-7cc0-8b5e-3f1d2c4b5a69","name":"bezahlt ä"}}` + "\n"
		}
		if body != want || header.Get("Content-Type") != kind {
			t.Errorf("the body is %s of %q", body, header.Get("Content-Type"))
		}
		for name, value := range map[string]string{
			"Taskengine-Woken-By": "signal", "Taskengine-Signal-Name": "bezahlt ä", "Taskengine-Signal-Id": "0190a6f0-7c3e-7cc0-8b5e-3f1d2c4b5a69",
			"Taskengine-Signal-At": "2026-11-29T12:00:00Z", "Taskengine-Attempt": "2",
		} {
			if header.Get(name) != value {
				t.Errorf("%s is %q, want %q", name, header.Get(name), value)
			}
		}
	}
}
