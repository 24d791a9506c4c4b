package dashboard_test

import (
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/taskengine/taskengine/dashboard"
	"github.com/taskengine/taskengine/internal/browsertest"
	"github.com/taskengine/taskengine/task"
)

func TestTheLogOfATaskIsFollowedUntilItsEnd(t *testing.T) {
	b := browsertest.Start(t)
	n := newNode(t)
	first := n.add(t, requestOf("hold", `{"n": 1}`))
	n.settled(t, first, task.Processing)
	id := n.add(t, requestOf("hold", `{"n": 2}`))
	p := b.Open(t, n.url+"task/"+id)
	p.Until(`document.querySelector("#log-state").innerText.includes("No attempt runs now") && document.querySelector("#logs .log").hidden`)
	n.call(t, "Cancel", `{"id": "`+first+`"}`)
	p.Until(`document.querySelector("#log-lines").innerText.includes("held <b>tight</b>") && !document.querySelector("#logs .log").hidden`)
	p.Until(`document.querySelector("#log-state").innerText.includes("are followed")`)
	n.call(t, "Cancel", `{"id": "`+id+`"}`)
	p.Until(`document.querySelector("#log-state").innerText.includes("has ended")`)
	if got := browsertest.Get[int](p, `document.querySelectorAll("#log-lines li").length`); got != 1 {
		t.Errorf("there are %d lines", got)
	}
	p.Until(`document.querySelector("h1").innerText.startsWith("cancelled")`)
	fresh := func() {
		p.Do(`new Promise((done) => document.addEventListener("fresh", done, {once: true})).then(() => true)`)
	}
	fresh()
	p.Traffic()
	fresh()
	urls, _ := p.Traffic()
	for _, u := range urls {
		if strings.Contains(u, "/lines") {
			t.Errorf("a log that has ended is asked for: %s", u)
		}
	}
	if faults := p.Faults(); len(faults) > 0 {
		t.Errorf("the browser reports %q", faults)
	}
}

// The part has the lines after the cursor alone.
func TestOnlyNewLinesAreSent(t *testing.T) {
	n := newNode(t)
	id := n.add(t, requestOf("hold", `{"n": 1}`))
	n.settled(t, id, task.Processing)
	v := n.visit(t, "")
	body := ""
	within(t, "the line", func() bool {
		_, body, _ = v.get(t, "task/"+id+"/lines?after=")
		return strings.Contains(body, "tight")
	})
	hasNot(t, body, "<html")
	_, after, _ := strings.Cut(body, `data-after="`)
	after, _, _ = strings.Cut(after, `"`)
	if _, body, _ = v.get(t, "task/"+id+"/lines?after="+url.QueryEscape(after)); strings.Contains(body, "tight") {
		t.Errorf("after %s it sends %s", after, body)
	}
	if code, _, _ := v.get(t, "task/"+id+"/lines?after=nonsense"); code != 400 {
		t.Errorf("a cursor that is none gives %d", code)
	}
}

func TestNodesThatHaveNotSentTheirLinesAreNamed(t *testing.T) {
	w := httptest.NewRecorder()
	dashboard.New(dashboard.Config{Base: "/ui/", API: stuffed{}, Node: "n1"}).ServeHTTP(w, httptest.NewRequest("GET", "http://node/ui/task/x/lines?after=y", nil))
	has(t, w.Body.String(), "are missing, because it does not answer")
}
