//go:build !race

package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/taskengine/taskengine/alert"
	"github.com/taskengine/taskengine/internal/smtptest"
)

// receiver is a webhook that refuses until it is opened.
type receiver struct {
	mu       sync.Mutex
	open     bool                 // guarded by mu
	refused  []alert.Notification // guarded by mu
	accepted []alert.Notification // guarded by mu
}

func (r *receiver) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	var n alert.Notification
	if err := json.NewDecoder(req.Body).Decode(&n); err != nil {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.open {
		r.refused = append(r.refused, n)
		w.WriteHeader(http.StatusServiceUnavailable)
		return
	}
	r.accepted = append(r.accepted, n)
}

func (r *receiver) accept() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.open = true
}

// got returns the refused and the accepted notifications.
func (r *receiver) got() (refused, accepted []alert.Notification) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.refused), slices.Clone(r.accepted)
}

// await waits until so many notifications were refused and accepted.
func (r *receiver) await(t *testing.T, refused, accepted int) {
	t.Helper()
	for begin := time.Now(); ; time.Sleep(20 * time.Millisecond) {
		no, yes := r.got()
		if len(no) >= refused && len(yes) >= accepted {
			return
		}
		if time.Since(begin) > limit {
			t.Fatalf("%d notifications were refused and %d accepted, want %d and %d", len(no), len(yes), refused, accepted)
		}
	}
}

func alertSettings(t *testing.T, storage, hook, mail string) string {
	return write(t, "taskengine.yaml", fmt.Sprintf(`
storage: %s
handlers: {fail: {exec: [/bin/sh, -c, 'echo sorry >&2; exit 65']}}
types: {fail: {}}
alerts:
  targets:
    hook: {webhook: {url: %q, headers: {X-Secret: "${SECRET}"}}}
    mail: {smtp: {server: %q, tls: none, from: taskengine@example.com, to: ops@example.com}}
  rules:
    errors: {when: errors, group_wait: 0s, interval: 0s}
`, storage, hook, mail))
}

// The targets refuse while the node is killed, and get each notification once when they accept.
func TestANotificationSurvivesAKilledNode(t *testing.T) {
	t.Parallel()
	for _, driver := range []string{"pebble", "postgres"} {
		t.Run(driver, func(t *testing.T) {
			t.Parallel()
			hook := new(receiver)
			server := httptest.NewServer(hook)
			defer server.Close()
			mails := smtptest.Server{}
			mails.Start(t)
			config, env := alertSettings(t, storageOf(t, driver), server.URL, mails.Addr), []string{"SECRET=x"}

			n := start(t, env, "run", "-c", config)
			id := parse(t, n.cli(t, "task", "add", "fail", "--wait", "--timeout", "1m", "-o", "json").stdout)[0]["id"].(string)
			hook.await(t, 1, 0)
			n.signal(t, syscall.SIGKILL)
			n.exit(t)

			n = start(t, env, "run", "-c", config)
			hook.await(t, 2, 0)
			n.signal(t, syscall.SIGKILL)
			n.exit(t)

			hook.accept()
			n = start(t, env, "run", "-c", config)
			hook.await(t, 2, 1)
			n.ok(t, "task", "cancel", id)
			hook.await(t, 2, 2)
			n.signal(t, syscall.SIGTERM)
			if code := n.exit(t); code != 0 {
				t.Errorf("the node ended with %d", code)
			}

			refused, accepted := hook.got()
			if len(accepted) != 2 || accepted[0].Status != alert.Firing || accepted[1].Status != alert.Resolved {
				t.Fatalf("accepted are %+v", accepted)
			}
			for _, n := range refused {
				if n.ID != accepted[0].ID {
					t.Errorf("a notification was sent with the IDs %s and %s", n.ID, accepted[0].ID)
				}
			}
			if a := accepted[0].Alerts[0]; a.Labels["type"] != "fail" || a.Value != 1 || !strings.Contains(a.Detail, id) || !strings.Contains(a.Detail, "sorry") {
				t.Errorf("the alert is %+v", a)
			}
			// A mail may come twice: the node may be killed before it has stored that the mail was accepted.
			got := mails.Mails()
			if len(got) < 2 || !strings.Contains(got[0].Data, "in error") || !strings.Contains(got[len(got)-1].Data, "resolved") {
				t.Errorf("the mails are %+v", got)
			}
		})
	}
}

func TestAlertsAreListedTestedAndSilenced(t *testing.T) {
	t.Parallel()
	hook := new(receiver)
	server := httptest.NewServer(hook)
	defer server.Close()
	mails := smtptest.Server{}
	mails.Start(t)
	config, env := alertSettings(t, storageOf(t, "pebble"), server.URL, mails.Addr), []string{"SECRET=x"}
	n := start(t, env, "run", "-c", config)

	// The webhook refuses, and the mail server does not.
	r := n.cli(t, "alert", "test", "-o", "json")
	tests := decode[alertTestJSON](t, r.stdout)
	if r.code != exitFailure || !strings.Contains(r.stderr, "1 of 2 targets did not accept") || len(tests) != 2 ||
		tests[0].Target != "hook" || tests[0].Accepted || !strings.Contains(tests[0].Problem, "503") || !tests[1].Accepted {
		t.Errorf("the test ended with %d: %s %+v", r.code, r.stderr, tests)
	}
	if refused, _ := hook.got(); len(refused) != 1 || !refused[0].Test || len(mails.Mails()) != 1 || !strings.Contains(mails.Mails()[0].Data, "This is a test") || strings.Contains(mails.Mails()[0].Data, "rule ,") {
		t.Errorf("the targets got %+v and %+v", refused, mails.Mails())
	}
	if r := n.cli(t, "alert", "test", "hok"); r.code != exitNotFound || !strings.Contains(r.stderr, "hook, mail") {
		t.Errorf("a target that is not there ends with %d: %s", r.code, r.stderr)
	}

	if r := n.cli(t, "alert", "silence", "errrors", "--for", "1h"); r.code != exitNotFound || !strings.Contains(r.stderr, "has errors") {
		t.Errorf("a rule that is not there ends with %d: %s", r.code, r.stderr)
	}
	for _, args := range [][]string{{"silence"}, {"silence", "errors", "typ=a", "--for", "1h"}, {"silence", "errors"}, {"silence", "errors", "--for", "0s"}, {"silence", "errors", "type", "--for", "1h"}, {"silence", "errors", "--for", "400d"}} {
		if r := n.cli(t, append([]string{"alert"}, args...)...); r.code != exitUsage {
			t.Errorf("%v ends with %d: %s", args, r.code, r.stderr)
		}
	}
	silence := decode[silenceJSON](t, n.ok(t, "alert", "silence", "errors", "type=fa*", "--for", "2h", "--comment", "known", "-o", "json"))[0]
	if silence.Rule != "errors" || silence.Labels["type"] != "fa*" || silence.Comment != "known" || silence.By == "" || silence.Until.Sub(silence.At) != 2*time.Hour {
		t.Errorf("the silence is %+v", silence)
	}
	n.cli(t, "task", "add", "fail", "--wait", "--timeout", "1m")
	n.signal(t, syscall.SIGTERM) // the next one looks at once
	n.exit(t)
	n = start(t, env, "run", "-c", config)
	list := awaitAlerts(t, n, func(l alertsJSON) bool { return len(l.Alerts) == 1 })
	if a := list.Alerts[0]; a.Rule != "errors" || a.When != "errors" || a.Status != "firing" || a.Labels["type"] != "fail" || a.Value != 1 || a.Silence != silence.ID || len(a.Notified) > 0 || a.FiredAt.IsZero() {
		t.Errorf("the alert is %+v", a)
	}
	if len(list.Silences) != 1 || list.Silences[0].ID != silence.ID || len(list.Unsent) > 0 {
		t.Errorf("the list is %+v", list)
	}
	if text := n.ok(t, "alert", "list"); !strings.Contains(text, "silence "+silence.ID) || !strings.Contains(text, "1 task of type fail is in error") || !strings.Contains(text, "known") {
		t.Errorf("the list is\n%s", text)
	}
	n.ok(t, "alert", "unsilence", silence.ID)
	if r := n.cli(t, "alert", "unsilence", silence.ID); r.code != exitNotFound {
		t.Errorf("ending a silence twice ends with %d: %s", r.code, r.stderr)
	}
	list = awaitAlerts(t, n, func(l alertsJSON) bool { return len(l.Unsent) == 1 })
	if u := list.Unsent[0]; u.Target != "hook" || u.Rule != "errors" || !slices.Equal(list.Alerts[0].Notified, []string{"hook", "mail"}) {
		t.Errorf("the list is %+v", list)
	}
	hook.accept()
	hook.await(t, 2, 1)
}

// awaitAlerts lists the alerts until they are as they should be.
func awaitAlerts(t *testing.T, n *running, isSo func(alertsJSON) bool) alertsJSON {
	t.Helper()
	for begin := time.Now(); ; time.Sleep(askEvery) {
		list := decode[alertsJSON](t, n.ok(t, "alert", "list", "-o", "json"))[0]
		if isSo(list) {
			return list
		}
		if time.Since(begin) > limit {
			t.Fatalf("the alerts stay %+v", list)
		}
	}
}

func TestANodeWithoutAlertsSaysSo(t *testing.T) {
	t.Parallel()
	n := start(t, nil, "run", "-c", settings(t, "memory", newGate(t)))
	for _, args := range [][]string{{"list"}, {"test"}, {"silence", "x", "--for", "1h"}, {"unsilence", "x"}} {
		if r := n.cli(t, append([]string{"alert"}, args...)...); r.code != exitNotAllowed || !strings.Contains(r.stderr, "has no alerts") {
			t.Errorf("%v ends with %d: %s", args, r.code, r.stderr)
		}
	}
}

// nodes returns the notifications about nodes, such as "firing a".
func (r *receiver) nodes() (all []string) {
	_, accepted := r.got()
	for _, n := range accepted {
		for _, a := range n.Alerts {
			all = append(all, string(a.Status)+" "+a.Labels["node"])
		}
	}
	return all
}

// awaitNodes waits until there is a notification about a node.
func (r *receiver) awaitNodes(t *testing.T, want string) {
	t.Helper()
	for begin := time.Now(); !slices.Contains(r.nodes(), want); time.Sleep(askEvery) {
		if time.Since(begin) > limit {
			t.Fatalf("the notifications about nodes are %q, want %q", r.nodes(), want)
		}
	}
}

func TestANodeThatDiesIsReportedAndOneThatDrainsIsNot(t *testing.T) {
	t.Parallel()
	hook := &receiver{open: true}
	server := httptest.NewServer(hook)
	defer server.Close()
	url := tables(t)
	config := write(t, "taskengine.yaml", fmt.Sprintf(`
storage: %s
coordination: {lease: 8s}
task_log: {max_size: 0B}
alerts:
  targets: {hook: {webhook: {url: %q}}}
  rules: {node: {when: node_down, for: 0s, group_wait: 0s, interval: 0s, repeat: 0s}}
`, onPostgres(url), server.URL))
	node := func(name string) *running { return start(t, nil, "run", "-c", config, "--set", "node.name="+name) }
	node("a")
	// A node is known to the others once it has stored that it has begun.
	begin := func(name string) *running {
		n := node(name)
		const known = "SELECT count(*) FROM taskengine.engine_setting WHERE name = convert_to('taskengine/settings/alerts', 'UTF8') AND convert_from(value, 'UTF8') LIKE '%%\"node/%s\"%%'"
		for begin := time.Now(); query(t, url, fmt.Sprintf(known, name)) == "0"; time.Sleep(askEvery) {
			if time.Since(begin) > limit {
				t.Fatalf("node %s does not store that it has begun", name)
			}
		}
		return n
	}
	b := begin("b")
	b.signal(t, syscall.SIGKILL)
	b.exit(t)
	hook.awaitNodes(t, "firing b")
	b = begin("b")
	hook.awaitNodes(t, "resolved b")
	b.signal(t, syscall.SIGTERM)
	b.exit(t)
	c := begin("c")
	c.signal(t, syscall.SIGKILL)
	c.exit(t)
	hook.awaitNodes(t, "firing c")
	if got := hook.nodes(); !slices.Equal(got, []string{"firing b", "resolved b", "firing c"}) {
		t.Errorf("the notifications about nodes are %q", got)
	}
}

// A node without an answer of its database notifies of that, though the notification cannot be stored. It notifies of the
// end when the database is back.
func TestADatabaseThatIsAwayIsReported(t *testing.T) {
	t.Parallel()
	hook := &receiver{open: true}
	server := httptest.NewServer(hook)
	defer server.Close()
	database := own(t)
	config := write(t, "taskengine.yaml", fmt.Sprintf(`
storage: %s
coordination: {lease: 2s}
node: {name: a}
alerts:
  targets: {hook: {webhook: {url: %q}}}
  rules: {store: {when: store_failing, for: 0s, group_wait: 0s, interval: 0s}}
`, onPostgres(tablesOn(t, database)), server.URL))
	n := start(t, nil, "run", "-c", config)
	n.ok(t, "alert", "test")
	hook.await(t, 0, 1)
	if err := database.Crash(); err != nil {
		t.Fatal(err)
	}
	hook.awaitNodes(t, "firing a")
	if err := database.Restart(); err != nil {
		t.Fatal(err)
	}
	hook.awaitNodes(t, "resolved a")
	if got := hook.nodes(); !slices.Equal(got, []string{"firing a", "resolved a"}) {
		t.Errorf("the notifications are %q", got)
	}
}
