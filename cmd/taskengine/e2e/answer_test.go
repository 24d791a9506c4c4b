//go:build !race

package e2e

import (
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"testing"
	"time"
)

// blocks returns the blocks of a language below the headings of a page of the manual, in their order.
func blocks(t *testing.T, page, heading, language string) (all []string) {
	t.Helper()
	text, err := os.ReadFile("../../../docs/" + page)
	if err != nil {
		t.Fatal(err)
	}
	_, section, found := strings.Cut(string(text), "\n## "+heading+"\n")
	section, _, _ = strings.Cut(section, "\n## ")
	for _, block := range strings.Split(section, "\n```"+language+"\n")[1:] {
		block, _, _ = strings.Cut(block, "\n```\n")
		all = append(all, block+"\n")
	}
	if !found || len(all) == 0 {
		t.Fatalf("%s has no %s below %q", page, language, heading)
	}
	return all
}

// recipes returns a configuration with the handlers and types of all recipes for answer documents.
func recipes(t *testing.T) string {
	t.Helper()
	handlers, types := "", ""
	for _, recipe := range append(blocks(t, "handlers-builtin.md", "Recipes", "yaml"), blocks(t, "workflows.md", "In a shell script", "yaml")...) {
		h, ty, ok := strings.Cut(strings.TrimPrefix(recipe, "handlers:\n"), "types:\n")
		if !ok {
			t.Fatalf("a recipe has no types:\n%s", recipe)
		}
		handlers, types = handlers+h, types+ty
	}
	return "storage: {driver: pebble, path: ./data}\nhandlers:\n" + handlers + "types:\n" + types
}

// shopper is a server that answers as the manual shows.
func shopper(t *testing.T) (url string, bodies func() string) {
	t.Helper()
	head, document, _ := strings.Cut(blocks(t, "handlers-builtin.md", "Recipes", "http")[0], "\n\n")
	kind, ok := strings.CutPrefix(head, "HTTP/1.1 200 OK\nContent-Type: ")
	if !ok {
		t.Fatalf("the manual shows another answer: %s", head)
	}
	var mu sync.Mutex
	var got strings.Builder // guarded by mu
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		mu.Lock()
		got.Write(body)
		mu.Unlock()
		w.Header().Set("Content-Type", kind)
		io.WriteString(w, document)
	}))
	t.Cleanup(web.Close)
	return web.URL, func() string {
		mu.Lock()
		defer mu.Unlock()
		return got.String()
	}
}

func TestTheRecipesForAnswersRunAsTheyAreInTheManual(t *testing.T) {
	t.Parallel()
	url, bodies := shopper(t)
	config := write(t, "taskengine.yaml", recipes(t))
	n := start(t, append(withPath(), "SHOP="+url), "run", "-c", config)

	t.Run("a job is polled", func(t *testing.T) {
		id := fmt.Sprint(n.objects(t, "task", "add", "poll")[0]["id"])
		if got := n.until(t, id, "done"); got["result_text"] != "after 3 looks\n" || got["attempt"] != 1.0 {
			t.Errorf("the task is %v", got)
		}
	})
	t.Run("a failure has a class and a reason", func(t *testing.T) {
		id := fmt.Sprint(n.objects(t, "task", "add", "pay")[0]["id"])
		if got := n.until(t, id, "error"); got["error"] != "the card has expired" || got["attempt"] != 1.0 {
			t.Errorf("the task is %v", got)
		}
	})
	t.Run("a server adds a task and signals another, for which a script waits", func(t *testing.T) {
		order := fmt.Sprint(n.objects(t, "task", "add", "order", "--key", "4711")[0]["id"])
		shop := fmt.Sprint(n.objects(t, "task", "add", "shop", "--data", `{"n": 1}`)[0]["id"])
		if got := n.until(t, shop, "done"); fmt.Sprint(got["result"]) != "shipped" {
			t.Errorf("the task of the server is %v", got)
		}
		if got := n.until(t, order, "done"); got["result_text"] != "approved\n" {
			t.Errorf("the order is %v", got)
		}
		mails := n.objects(t, "task", "list", "--type", "mail")
		if len(mails) != 1 || mails[0]["key"] != "4711" {
			t.Fatalf("there are these mails: %v", mails)
		}
		if got := n.until(t, fmt.Sprint(mails[0]["id"]), "done"); fmt.Sprint(got["result"]) != "map[to:ann]" {
			t.Errorf("the mail is %v", got)
		}
		if got := bodies(); !strings.Contains(got, `"payload":{"n":1}`) || strings.Count(got, shop) != 1 {
			t.Errorf("the server got %s", got)
		}
	})
	t.Run("a person answers, or does not", func(t *testing.T) {
		order := fmt.Sprint(n.objects(t, "task", "add", "order", "--key", "4712")[0]["id"])
		n.ok(t, "task", "signal", "--type", "order", "--key", "4712", "--keep", "refused")
		if got := n.until(t, order, "done"); got["result_text"] != "refused\n" {
			t.Errorf("the order is %v", got)
		}
		text, err := os.ReadFile(config)
		if err != nil {
			t.Fatal(err)
		}
		soon := write(t, "taskengine.yaml", strings.ReplaceAll(string(text), `"48h"`, `"10ms"`))
		n := start(t, append(withPath(), "SHOP="+url), "run", "-c", soon)
		order = fmt.Sprint(n.objects(t, "task", "add", "order")[0]["id"])
		if got := n.until(t, order, "error"); got["error"] != "no answer" {
			t.Errorf("the order of which nobody knows is %v", got)
		}
	})
	t.Run("a report waits for its pages", func(t *testing.T) {
		id := fmt.Sprint(n.objects(t, "task", "add", "report", "--data", `["a", "b", "c"]`)[0]["id"])
		if got := n.until(t, id, "done"); got["result_text"] != "3 of 3 pages\n" {
			t.Errorf("the report is %v", got)
		}
		if pages := n.objects(t, "task", "list", "--type", "page", "--state", "done"); len(pages) != 3 {
			t.Errorf("there are %d pages", len(pages))
		}
		empty := fmt.Sprint(n.objects(t, "task", "add", "report", "--data", `[]`)[0]["id"])
		if got := n.until(t, empty, "done"); got["state"] != "done" {
			t.Errorf("the report without pages is %v", got)
		}
		// A page that fails waits for a person, and the report for it.
		id = fmt.Sprint(n.objects(t, "task", "add", "report", "--data", `["a", "broken"]`)[0]["id"])
		broken := ""
		for broken == "" {
			for _, page := range n.objects(t, "task", "list", "--type", "page", "--state", "error") {
				broken = fmt.Sprint(page["id"])
			}
		}
		if tree := n.objects(t, "task", "tree", id); len(tree) != 3 || !strings.Contains(fmt.Sprint(tree), broken) {
			t.Errorf("the tree of the report is %v", tree)
		}
		n.ok(t, "task", "fail", broken)
		if got := n.until(t, id, "done"); got["result_text"] != "1 of 2 pages\n" {
			t.Errorf("the report is %v", got)
		}
	})
}

// crowd is a handler. Its first attempt writes a document, and hangs until the gate is open. The attempt after the wait returns how many
// children have ended.
const crowd = `
storage: {driver: pebble, path: ./data}
handlers:
  crowd:
    exec:
      - sh
      - -ec
      - |
        if [ -z "$TASKENGINE_WOKEN_BY" ]; then
          jq -c '{children: {page: [.payload[] | {type: "page", payload: .}]}, tasks: [{type: "note"}, {type: "note"}],
            wait: {children: [{name: "page"}]}, checkpoint: {pages: .payload | length}}' >&"$TASKENGINE_ANSWER_FD"
          echo >> "$GATE.began"
          true < "$GATE.pipe"
        else
          jq -c '[.checkpoint.pages, .children.page.done]'
        fi
    payload: envelope
    pass_env: PATH
    env: {GATE: %[1]q}
    may_add: [page, note]
  page: {exec: [sh, -c, 'while ! [ -e "$GATE.pages" ]; do sleep 0.05; done'], pass_env: PATH, env: {GATE: %[1]q}}
  note: {exec: ["true"], pass_env: PATH}
types: {crowd: {max_crashes: 0}, page: {max_crashes: 0}, note: {}}
`

func TestAnAnswerCountsAsAWholeThoughNodesAreKilled(t *testing.T) {
	t.Parallel()
	const pages = 30
	g := newGate(t)
	config := write(t, "taskengine.yaml", fmt.Sprintf(crowd, string(g)))
	n := start(t, withPath(), "run", "-c", config)
	kill := func() {
		if err := n.cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		<-n.ended
		n = start(t, withPath(), "run", "-c", config)
	}
	count := func(typ, state string) int {
		return len(n.objects(t, "task", "list", "--type", typ, "--state", state, "--limit", "1000"))
	}
	payload := "[" + strings.TrimSuffix(strings.Repeat("1,", pages), ",") + "]"
	id := fmt.Sprint(n.objects(t, "task", "add", "crowd", "--data", payload)[0]["id"])
	awaitFile(t, string(g)+".began")
	kill() // the document is written, and the attempt has not ended
	for _, state := range []string{"waiting", "submitted", "processing", "done"} {
		if got := count("page", state) + count("note", state); got != 0 {
			t.Fatalf("%d tasks of an attempt that did not end are %s", got, state)
		}
	}
	g.open(t)
	for fmt.Sprint(n.objects(t, "task", "get", id)[0]["awaits"]) != "[taskengine.children]" {
		time.Sleep(askEvery)
	}
	kill() // the children run
	if err := os.WriteFile(string(g)+".pages", nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if got := n.until(t, id, "done"); fmt.Sprint(got["result"]) != fmt.Sprint([]int{pages, pages}) {
		t.Errorf("the task is %v", got)
	}
	n.ok(t, "task", "wait", "--type", "note", "--timeout", "1m")
	if got := [2]int{count("page", "done"), count("note", "done")}; got != [2]int{pages, 2} {
		t.Errorf("%d pages and %d notes are done", got[0], got[1])
	}
}

func TestARefusedAnswerIsAnErrorThatIsExplained(t *testing.T) {
	t.Parallel()
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/vnd.taskengine.answer+json")
		io.WriteString(w, `{"tasks": [{"type": "payout", "payload": "all"}]}`)
	}))
	defer web.Close()
	n := start(t, withPath(), "run", "-c", write(t, "taskengine.yaml", fmt.Sprintf(`
storage: {driver: memory}
handlers:
  web: {http: {url: %q, may_add: pay}}
  shell: {exec: [sh, -c, 'echo "{\"wait\": {\"signal\": [\"a\"]}}" >&"$TASKENGINE_ANSWER_FD"']}
types: {web: {}, shell: {}, payout: {handler: shell}}
`, web.URL)))
	for typ, want := range map[string][2]string{
		"web":   {`tasks[0] has the type "payout", and may_add of the handler does not list it`, `"payload": "all"`},
		"shell": {"wait.signal is no field; did you mean signals?", `"signal": ["a"]`},
	} {
		id := fmt.Sprint(n.objects(t, "task", "add", typ)[0]["id"])
		if got := n.until(t, id, "error"); !strings.Contains(fmt.Sprint(got["error"]), want[0]) || got["attempt"] != 1.0 {
			t.Errorf("the task is %v", got)
		}
		logged := strings.ReplaceAll(n.ok(t, "task", "logs", id), `\"`, `"`)
		if !strings.Contains(logged, "the answer was refused") || !strings.Contains(logged, want[1]) {
			t.Errorf("the log of the task is %s", logged)
		}
	}
	if added := n.objects(t, "task", "list", "--type", "payout"); len(added) != 0 {
		t.Errorf("a server that may not has added %v", added)
	}
}

func TestAnswersAddTasksThatRunAfterOthers(t *testing.T) {
	t.Parallel()
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		w.Header().Set("Content-Type", "application/vnd.taskengine.answer+json")
		fmt.Fprintf(w, `{"tasks": [{"type": "last", "after": [%s], "after_any": true}]}`, body)
	}))
	defer web.Close()
	n := start(t, withPath(), "run", "-c", write(t, "taskengine.yaml", fmt.Sprintf(`
storage: {driver: memory}
handlers:
  shell:
    exec: [sh, -ec, 'echo "{\"tasks\": [{\"type\": \"late\", \"after\": [$(cat)]}]}" >&"$TASKENGINE_ANSWER_FD"']
    pass_env: PATH
    may_add: late
  web: {http: {url: %q, may_add: last}}
  member: {exec: ["true"], pass_env: PATH}
types: {shell: {retry: {max: 1}}, web: {}, first: {handler: member}, late: {handler: member}, last: {handler: member}}
`, web.URL)))
	first := fmt.Sprint(n.objects(t, "task", "add", "first", "--in", "1h")[0]["id"])
	added := make(map[string]string)
	for typ, of := range map[string]string{"shell": "late", "web": "last"} {
		n.until(t, fmt.Sprint(n.objects(t, "task", "add", typ, "--data", `"`+first+`"`)[0]["id"]), "done")
		got := n.objects(t, "task", "list", "--type", of)
		if len(got) != 1 || got[0]["state"] != "waiting" {
			t.Fatalf("%s has added %v", typ, got)
		}
		added[of] = fmt.Sprint(got[0]["id"])
	}
	n.ok(t, "task", "cancel", first)
	if got := n.until(t, added["late"], "cancelled"); !strings.Contains(fmt.Sprint(got["error"]), first) {
		t.Errorf("the task after one that was cancelled is %v", got)
	}
	n.until(t, added["last"], "done")
	gone := fmt.Sprint(n.objects(t, "task", "add", "shell", "--data", `"0190a6f0-7c3e-7cc0-8b5e-3f1d2c4b5a69"`)[0]["id"])
	if got := n.until(t, gone, "error"); !strings.Contains(fmt.Sprint(got["error"]), "is not in the store") {
		t.Errorf("the task that adds one after an unknown task is %v", got)
	}
}

// families are handlers of two types. Each task adds children and a task, waits for the children, and returns how many are done.
const families = `
storage: {driver: pebble, path: ./data}
handlers:
  shell:
    exec:
      - sh
      - -ec
      - |
        if [ -z "$TASKENGINE_WOKEN_BY" ]; then
          echo '{"children": {"page": [{"type": "page"}, {"type": "page"}, {"type": "page"}]}, "tasks": [{"type": "note"}],
            "wait": {"children": [{"name": "page"}]}}' >&"$TASKENGINE_ANSWER_FD"
        else
          jq .children.page.done
        fi
    payload: envelope
    pass_env: PATH
    may_add: [page, note]
  web: {http: {url: %q, envelope: true, may_add: [page, note]}}
  member: {exec: ["true"], pass_env: PATH}
types:
  shell: {max_crashes: 0, retry: {max: forever, backoff: none}}
  web: {max_crashes: 0, retry: {max: forever, backoff: none}}
  page: {handler: member, max_crashes: 0}
  note: {handler: member, max_crashes: 0}
`

func TestTasksOfAnswersExistOnceThoughNodesAreKilled(t *testing.T) {
	t.Parallel()
	const each, pages, kills = 12, 3, 6
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var task struct {
			Children map[string]struct{ Done int }
		}
		if err := json.NewDecoder(r.Body).Decode(&task); err != nil {
			return
		}
		w.Header().Set("Content-Type", "application/vnd.taskengine.answer+json")
		if r.Header.Get("Taskengine-Woken-By") == "children" {
			fmt.Fprintf(w, `{"result": %d}`, task.Children["page"].Done)
			return
		}
		io.WriteString(w, `{"wait": {"children": [{"name": "page"}]}, "tasks": [{"type": "note"}],
			"children": {"page": [{"type": "page"}, {"type": "page"}, {"type": "page"}]}}`)
	}))
	defer web.Close()
	config := write(t, "taskengine.yaml", fmt.Sprintf(families, web.URL))
	n := start(t, withPath(), "run", "-c", config)
	var ids []string
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	for range kills {
		for range each / kills {
			for _, typ := range []string{"shell", "web"} {
				ids = append(ids, fmt.Sprint(n.objects(t, "task", "add", typ)[0]["id"]))
			}
		}
		time.Sleep(time.Duration(random.IntN(200)) * time.Millisecond) // wherever that is
		if err := n.cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		<-n.ended
		n = start(t, withPath(), "run", "-c", config)
	}
	for _, id := range ids {
		if got := n.until(t, id, "done"); got["result"] != float64(pages) {
			t.Errorf("the task is %v", got)
		}
	}
	for _, typ := range []string{"page", "note"} {
		n.ok(t, "task", "wait", "--type", typ, "--timeout", "1m")
	}
	all := func(typ string) int { return len(n.objects(t, "task", "list", "--type", typ, "--limit", "1000")) }
	if got, want := [2]int{all("page"), all("note")}, [2]int{pages * len(ids), len(ids)}; got != want {
		t.Errorf("there are %d pages and %d notes, want %d", got[0], got[1], want)
	}
}
