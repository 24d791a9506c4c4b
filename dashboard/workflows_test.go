package dashboard_test

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/taskengine/taskengine/dashboard"
	"github.com/taskengine/taskengine/internal/access"
	"github.com/taskengine/taskengine/internal/browsertest"
	pb "github.com/taskengine/taskengine/server/proto/taskengine/v1"
	"github.com/taskengine/taskengine/task"
)

func TestAWorkflowIsShownAsAGraphAndRunAgainByMouse(t *testing.T) {
	b := browsertest.Start(t)
	n := newNode(t)
	id := n.workflow(t)
	p := b.Open(t, n.url+"workflows")
	p.Until(`document.querySelectorAll("#open tbody tr").length === 1 && document.querySelector("#ended").innerText.includes("There are none")`)
	p.Loads(func() { p.Click("#open tbody a") })
	p.Until(`location.pathname === "/ui/workflow/` + id + `" && document.querySelectorAll("#graph .step").length === 3`)
	p.Until(`document.querySelector("#graph .step.done text").textContent === "fetch"`)
	p.Picture("workflow")
	step := browsertest.Get[string](p, `document.querySelector("#graph a.step.done").getAttribute("href")`)
	p.Loads(func() { p.Click("#graph a.step.done text") })
	p.Until(`location.pathname === "` + step + `" && document.querySelector("h1").innerText.includes("echo")`)
	p.Go(n.url + "workflow/" + id)
	p.Loads(func() { p.Click(`#workflow a`) })
	p.Until(`location.pathname === "/ui/task/` + id + `"`)
	if faults := p.Faults(); len(faults) > 0 {
		t.Errorf("the browser reports %q", faults)
	}
}

// A store may read many tasks to find workflows that have ended.
func TestThePageOfWorkflowsDoesNotWaitForThoseThatHaveEnded(t *testing.T) {
	n, release := newNode(t), make(chan struct{})
	id := n.workflow(t)
	api := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		var req pb.ListRequest
		if strings.HasSuffix(r.URL.Path, "/List") && proto.Unmarshal(body, &req) == nil && slices.Contains(req.GetStates(), "done") {
			<-release
		}
		n.api.Handler.ServeHTTP(w, r)
	})
	d := dashboard.New(dashboard.Config{Base: "/ui/", API: api, Node: "n1"})
	get := func() string {
		w := httptest.NewRecorder()
		d.ServeHTTP(w, httptest.NewRequest("GET", "http://node/ui/workflows", nil))
		return w.Body.String()
	}
	var body string
	within(t, "the open workflow", func() bool { body = get(); return strings.Contains(body, "/ui/workflow/"+id) })
	has(t, body, "still looking for these workflows")
	hasNot(t, body, "There are none")
	close(release)
	within(t, "ended workflows", func() bool { return strings.Contains(get(), "There are none") })
}

// workflow adds a workflow of three steps, the second of which fails, and returns its id.
func (n *node) workflow(t testing.TB) string {
	t.Helper()
	got := n.call(t, "SubmitWorkflow", `{"definition": "{\"steps\": {\"fetch\": {\"type\": \"echo\"}, \"pay\": {\"type\": \"fail\", \"after\": [\"fetch\"]}, \"mail\": {\"type\": \"echo\", \"after\": [\"pay\"]}}}"}`)
	return regexp.MustCompile(`"id": ?"([^"]+)"`).FindStringSubmatch(got)[1]
}

// All tasks of a step are in its row, to which its box leads if they are several.
func TestABoxOfSeveralTasksLeadsToItsRow(t *testing.T) {
	w := httptest.NewRecorder()
	dashboard.New(dashboard.Config{Base: "/ui/", API: stuffed{}, Node: "n1"}).ServeHTTP(w, httptest.NewRequest("GET", "http://node/ui/workflow/x", nil))
	has(t, w.Body.String(), `<a href="/ui/workflow/x#step-0"`, `<tr id="step-0">`)
}

func TestATaskShowsTheTasksBeforeAndAfterIt(t *testing.T) {
	n := newNode(t)
	first := n.add(t, task.Request{Type: "later", At: time.Now().Add(time.Hour)})
	second := regexp.MustCompile(`"id": ?"([^"]+)"`).FindStringSubmatch(n.call(t, "Submit", `{"tasks": [{"type": "echo", "after": ["`+first+`"], "afterAny": true}]}`))[1]
	v := n.visit(t, "")
	_, body, _ := v.get(t, "task/"+second)
	has(t, body, "<dt>Runs after</dt>", "/ui/task/"+first, "1 in all: 0 done", "however they end")
	_, body, _ = v.get(t, "task/"+first)
	has(t, body, "<dt>Before</dt>", "/ui/task/"+second, "run after it")
}

func TestDocumentsAreListedByPrefixAndShown(t *testing.T) {
	n := newNode(t, of("view", access.View), of("admin", access.Admin), of("other", access.View, "echo"))
	for _, key := range []string{"shops/a&b", "shops/c", "users/d"} {
		if err := n.engine.WriteDocuments(t.Context(), task.DocumentWrite{Key: key, Data: []byte(`{"n": "<b>"}`)}); err != nil {
			t.Fatal(err)
		}
	}
	v := n.visit(t, "view")
	_, body, _ := v.get(t, "documents?prefix=shops%2F")
	has(t, body, `href="/ui/document?key=shops%2fa%26b"`, "shops/c", "taskengine document list --prefix shops/")
	hasNot(t, body, "users/d")
	_, body, _ = v.get(t, "document?key=shops%2fa%26b")
	has(t, body, "[redacted]", "12 bytes", "taskengine document get &#39;shops/a&amp;b&#39;")
	_, body, _ = n.visit(t, "admin").get(t, "document?key=shops%2fa%26b")
	has(t, body, "&lt;b&gt;")
	if code, _, _ := v.get(t, "document?key=none"); code != 404 {
		t.Errorf("a document that there is not gives %d", code)
	}
	if code, body, _ := n.visit(t, "other").get(t, "documents"); code != 403 {
		t.Errorf("a token for one type gets %d: %s", code, body)
	}
}

func TestALimitShowsWhoHoldsItAndWhoWaits(t *testing.T) {
	n := newNode(t)
	held := n.add(t, requestOf("shared", `{"partner": "acme"}`))
	n.settled(t, held, task.Processing)
	n.add(t, requestOf("shared", `{"partner": "acme"}`))
	v := n.visit(t, "")
	_, body, _ := v.get(t, "limits")
	has(t, body, `href="/ui/limit/partner"`)
	_, body, _ = v.get(t, "limit/partner?value=acme")
	has(t, body, "1 of 1 slots", "/ui/task/"+held, ">shared</a>", "taskengine limit why partner --value acme")
}

func TestAScheduleShowsItsNextTimesAndIsPaused(t *testing.T) {
	n := newNode(t)
	n.call(t, "ApplySchedule", `{"name": "nightly", "definition": {"cron": "30 2 * * *", "timezone": "Europe/Berlin", "task": {"type": "echo"}}}`)
	v := n.visit(t, "")
	_, body, _ := v.get(t, "schedules")
	has(t, body, `href="/ui/schedule/nightly"`, "30 2 * * *", "Europe/Berlin")
	_, body, _ = v.get(t, "schedule/nightly")
	if got := strings.Count(body, "<time data-local"); got != 10 {
		t.Errorf("there are %d next times", got)
	}
	has(t, body, "T02:30:00&#43;0", "taskengine schedule show nightly")
	if code, body, _ := v.post(t, "schedule/nightly/pause", nil); code != 303 {
		t.Errorf("pausing gives %d: %s", code, body)
	}
	_, body, _ = v.get(t, "schedule/nightly")
	has(t, body, "paused", "schedule/nightly/resume")
}
