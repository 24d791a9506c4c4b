package dashboard_test

import (
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/taskengine/taskengine/internal/access"
	"github.com/taskengine/taskengine/internal/browsertest"
	"github.com/taskengine/taskengine/task"
)

// hostile is text that would do something if a page did not show it as text.
const hostile = "</pre></script><script>document.title='stolen'</script><img src=x onerror=\"document.title='stolen'\">\u202egnp.exe\u0000\x1b[2J\u2066 {{.Secret}} javascript:alert(1)"

func TestHostileContentIsShownAsText(t *testing.T) {
	b := browsertest.Start(t)
	n := newNode(t)
	id := n.add(t, task.Request{
		Type: "fail", Payload: []byte(hostile + strings.Repeat("long line ", 100_000)), Key: `"><script>document.title='stolen'</script>`, OrderingKey: hostile[:60],
		Headers: map[string]string{`<b>x`: hostile},
	})
	other := n.add(t, task.Request{Type: `<svg onload="document.title='stolen'">`, Payload: []byte("\xff\xfe\x00")})
	n.settled(t, id, failedState)
	p := b.Open(t, n.url)
	for _, path := range []string{"", "tasks", "tasks?q=" + url.QueryEscape(hostile), "task/" + id, "task/" + other, "task/" + id + "/edit", "errors", "errors?q=" + url.QueryEscape(hostile), "bulk/new?q=" + url.QueryEscape(`key=*script* "`), "bulk/new?verb=" + url.QueryEscape(hostile) + "&q=age>1s"} {
		p.Go(n.url + path)
		if title := browsertest.Get[string](p, `document.title`); title == "stolen" {
			t.Errorf("%s: the content has run", path)
		}
		if got := browsertest.Get[int](p, `document.querySelectorAll("img, script:not([src]), svg[onload], main b[x]").length`); got > 0 {
			t.Errorf("%s: there are %d elements of the content", path, got)
		}
		if got := browsertest.Get[bool](p, `/[\u202a-\u202e\u2066-\u2069\u0000-\u0008\u000b-\u001f\u007f]/.test(document.body.innerText)`); got {
			t.Errorf("%s: characters that change the text around them are shown as they are", path)
		}
	}
	_, body, _ := n.visit(t, "").get(t, "task/"+id)
	has(t, body, `\u202egnp.exe`, `\x1b[2J`, "more bytes)", "&lt;script&gt;")
	if len(body) > 400_000 {
		t.Errorf("the page has %d bytes", len(body))
	}
	_, body, _ = n.visit(t, "").get(t, "task/"+other)
	has(t, body, "3 bytes, not text", "ff fe 00")
}

func TestATaskIsShownAndRunAgainByMouse(t *testing.T) {
	b := browsertest.Start(t)
	n := newNode(t)
	held := n.add(t, requestOf("hold", `{"n": 1}`))
	n.settled(t, held, task.Processing)
	waits := n.add(t, requestOf("hold", `{"n": 2}`))
	p := b.Open(t, n.url+"task/"+waits)
	p.Until(`document.querySelector("#why").innerText.includes("held by")`)
	if got := browsertest.Get[string](p, `document.querySelector("#why a").getAttribute("href")`); got != "/ui/task/"+held {
		t.Errorf("the task that holds the limit is %s", got)
	}
	p.Loads(func() { p.Click("#why a") })
	p.Until(`document.querySelector("#logs").innerText.includes("held <b>tight</b>")`)
	p.Until(`document.querySelector("#attempts").innerText.includes("running")`)
	failed := n.add(t, requestOf("fail", "the bank answers 503"))
	n.settled(t, failed, failedState)
	p.Go(n.url + "task/" + failed)
	if got := p.Text("h1"); !strings.HasPrefix(got, failedState.String()) {
		t.Errorf("the title is %q", got)
	}
	p.Loads(func() { p.Click("form[action$=resume] button") })
	p.Until(`document.querySelector("#notes").innerText.includes("ready to run") && document.querySelectorAll("#attempts tbody tr").length === 2`)
	later := n.add(t, task.Request{Type: "later", Payload: []byte("{}"), At: time.Now().Add(time.Hour)})
	p.Go(n.url + "task/" + later)
	p.Click("#cancel summary")
	p.Until(`document.querySelector("#cancel").open`)
	p.Click("#why-cancel")
	p.Type("doubled <i>")
	p.Do(`new Promise((done) => document.addEventListener("refreshed", done, {once: true})).then(() => true)`) // what is typed stays
	p.Loads(func() { p.Press("Enter") })
	p.Until(`document.querySelector("h1").innerText.startsWith("cancelled") && document.querySelector("#task").innerText.includes("doubled <i>")`)
	if faults := p.Faults(); len(faults) > 0 {
		t.Errorf("the browser reports %q", faults)
	}
}

func TestATaskIsEdited(t *testing.T) {
	n := newNode(t)
	id := n.add(t, task.Request{Type: "later", Payload: []byte("{\n \"a\": 1}"), At: time.Now().Add(time.Hour), Headers: map[string]string{"region": "eu", "gone": "x"}})
	v := n.visit(t, "")
	_, body, _ := v.get(t, "task/"+id+"/edit")
	has(t, body, `name="version" value="1"`, "region: eu", "&#34;a&#34;: 1")
	form := url.Values{"version": {"1"}, "priority": {"2"}, "payload": {"{\r\n \"a\": 2}"}, "headers": {"region: us\r\nnew: y: z\r\n"}, "in": {"2h"}}
	if code, body, header := v.post(t, "task/"+id+"/edit", form); code != 303 || header.Get("Location") != "/ui/task/"+id+"?done=edit" {
		t.Fatalf("saving gives %d: %s", code, body)
	}
	parsed, err := task.ParseID(id)
	if err != nil {
		t.Fatal(err)
	}
	got, err := n.engine.Get(t.Context(), parsed)
	if err != nil || got.Priority != 2 || string(got.Payload) != "{\n \"a\": 2}" || got.Headers["region"] != "us" || got.Headers["new"] != "y: z" || got.Headers["gone"] != "" || time.Until(got.NextEventAt) < time.Hour {
		t.Errorf("the task is %+v, %v", got, err)
	}
	if code, body, _ := v.post(t, "task/"+id+"/edit", form); code != 409 || !strings.Contains(body, "has changed since the form was opened") {
		t.Errorf("saving an old form gives %d: %s", code, body)
	}
	form.Set("version", "2")
	form.Set("headers", "no colon")
	if code, body, _ := v.post(t, "task/"+id+"/edit", form); code != 400 || !strings.Contains(body, "NAME: VALUE") {
		t.Errorf("a header without a colon gives %d: %s", code, body)
	}
}

// Each role sees what it may, is offered what it may, and is refused the rest.
func TestEachRoleSeesAndDoesWhatItMay(t *testing.T) {
	n := newNode(t, of("view", access.View), of("submit", access.Submit), of("manage", access.Manage), of("operate", access.Operate), of("admin", access.Admin), of("other", access.Admin, "fail"))
	id := n.add(t, task.Request{Type: "echo", Payload: []byte(`{"card": "4711-0815", "item": "shoes"}`), At: time.Now().Add(time.Hour)})
	for name, c := range map[string]struct{ content, card, acts bool }{
		"view": {}, "submit": {content: true}, "manage": {acts: true}, "operate": {content: true, acts: true}, "admin": {true, true, true},
	} {
		t.Run(name, func(t *testing.T) {
			v := n.visit(t, name)
			code, body, _ := v.get(t, "task/"+id)
			if code != 200 || strings.Contains(body, "shoes") != c.content || strings.Contains(body, "4711-0815") != c.card || strings.Contains(body, "/cancel") != c.acts {
				t.Errorf("the page gives %d: %s", code, body)
			}
			_, body, _ = v.get(t, "task/"+id+"/edit")
			if strings.Contains(body, `name="payload"`) != (c.acts && c.card) {
				t.Errorf("the form is %s", body)
			}
			if !c.acts {
				if code, _, _ := v.post(t, "task/"+id+"/resume", nil); code != 403 {
					t.Errorf("running it now gives %d", code)
				}
				if code, _, _ := v.post(t, "task/"+id+"/edit", url.Values{"version": {"1"}, "priority": {"3"}}); code != 403 {
					t.Errorf("editing it gives %d", code)
				}
			}
		})
	}
	if code, body, _ := n.visit(t, "other").get(t, "task/"+id); code != 403 || strings.Contains(body, "shoes") {
		t.Errorf("a token for another type gets %d: %s", code, body)
	}
	if code, _, header := n.visit(t, "manage").post(t, "task/"+id+"/resume", nil); code != 303 || header.Get("Location") != "/ui/task/"+id+"?done=resume" {
		t.Errorf("running it now gives %d to %q", code, header.Get("Location"))
	}
}
