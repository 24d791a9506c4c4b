//go:build !race

package e2e

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/taskengine/taskengine/config"
	"github.com/taskengine/taskengine/internal/pgtest"
	taskenginev1 "github.com/taskengine/taskengine/server/proto/taskengine/v1"
	"github.com/taskengine/taskengine/server/proto/taskengine/v1/taskenginev1connect"
	"github.com/taskengine/taskengine/task"
)

const upgradeConfig = `
storage: %[1]s
node: {drain_timeout: 10m}
coordination: {lease: 30s}
handlers:
  program: {plugin: [%[2]q], env: {%[3]s: plugin, JOURNAL: %[4]q}, slots: 4}
  nothing: {exec: [/bin/true]}
types:
  least: {handler: program}
  child: {handler: nothing}
`

// arrivals adds tasks of the type least at one of some nodes, again at another one if that does not take them.
type arrivals struct {
	mu    sync.Mutex
	nodes []string // APIs of nodes, guarded by mu
	added int      // tasks that were accepted, guarded by mu
}

// replace changes the API of a node. "" is of a node that takes no tasks.
func (l *arrivals) replace(i int, api string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.nodes[i] = api
}

func (l *arrivals) count() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.added
}

// run adds tasks until ctx ends.
func (l *arrivals) run(ctx context.Context, ids *task.IDs) {
	const each, pause = 4, 100 * time.Millisecond
	web := &http.Client{Transport: &http.Transport{}}
	defer web.CloseIdleConnections()
	for at := 0; ctx.Err() == nil; time.Sleep(pause) {
		req := &taskenginev1.SubmitRequest{}
		for range each {
			req.Tasks = append(req.Tasks, &taskenginev1.NewTask{Id: ids.Next(time.Now()).String(), Type: "least"})
		}
		for accepted := false; !accepted; at++ { // also after the end of ctx: then the tasks are added, or not, for certain
			l.mu.Lock()
			api := l.nodes[at%len(l.nodes)]
			l.mu.Unlock()
			if api == "" {
				continue
			}
			within, cancel := context.WithTimeout(context.WithoutCancel(ctx), limit)
			_, err := taskenginev1connect.NewTaskServiceClient(web, "http://"+api).Submit(within, req)
			cancel()
			if accepted = err == nil; !accepted {
				time.Sleep(askEvery)
			}
		}
		l.mu.Lock()
		l.added += each
		l.mu.Unlock()
	}
}

// Each of three nodes drains and is replaced by one of another version while tasks come, and in between the tables become those of a
// made-up next version. No task is lost, and none has an effect twice. Before each step upgrade check says that it is possible.
func TestNodesAreReplacedOneByOneUnderLoad(t *testing.T) {
	t.Parallel()
	const before, after = "v1.0.0", "v1.1.0"
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	url := tables(t)
	file := write(t, "taskengine.yaml", fmt.Sprintf(upgradeConfig, onPostgres(url), self, role, filepath.Join(t.TempDir(), "journal")))
	nodeAs := func(version string, i int) *running {
		return start(t, []string{"PATH=" + os.Getenv("PATH"), versionInTests + "=" + version},
			"run", "-c", file, "--set", fmt.Sprintf("node.name=n%d", i), "--set", "task_log.path="+t.TempDir())
	}
	check := func(version string, at *running, code int, says ...string) {
		t.Helper()
		var r result
		says = append(says, "configuration: this version accepts "+file)
		for begin := time.Now(); time.Since(begin) < limit; time.Sleep(askEvery) { // a node learns of others a little later
			r = cli(t, []string{versionInTests + "=" + version}, "", "upgrade", "check", "-c", file, "--address", at.api)
			lacks := func(want string) bool { return !strings.Contains(r.stdout, want) }
			if r.code == code && !slices.ContainsFunc(says, lacks) {
				return
			}
		}
		t.Fatalf("the check of %s ends with %d, want %d and %q:\n%s%s", version, r.code, code, says, r.stdout, r.stderr)
	}
	check(after, &running{api: "127.0.0.1:1"}, exitOK, "nodes: none runs", "that of this program")
	for _, f := range parse(t, succeeds(t, "upgrade", "check", "-c", file, "--address", "127.0.0.1:1", "-o", "json")) {
		if f["verdict"] != "ok" || f["check"] == "" || f["what"] == "" {
			t.Errorf("a finding is %v", f)
		}
	}
	l := &arrivals{nodes: make([]string, 3)}
	all := make([]*running, len(l.nodes))
	for i := range all {
		all[i] = nodeAs(before, i)
		l.replace(i, all[i].api)
	}
	check(after, &running{api: "127.0.0.1:1"}, exitPartial, "n0, n1, n2 run, and their versions are not known")
	ctx, stop := context.WithCancel(t.Context())
	var loading sync.WaitGroup
	loading.Go(func() { l.run(ctx, task.NewIDs([32]byte{1})) })
	t.Cleanup(func() { stop(); loading.Wait() })
	for i, want := range []string{before + ": n0, n1, n2;", before + ": n1, n2; this version: n0;", before + ": n2; this version: n0, n1;"} {
		check(after, all[len(all)-1], exitOK, want)
		l.more(t)
		all[i].signal(t, syscall.SIGTERM)
		if code := all[i].exit(t); code != exitOK {
			t.Errorf("node %d ended with %d", i, code)
		}
		l.more(t)
		all[i] = nodeAs(after, i)
		l.replace(i, all[i].api)
		if i == 0 {
			check("v1.2.0", all[i], exitFailure, "several other versions run ("+before+": n1, n2; "+after+": n0)")
			pgtest.Exec(t, pgtest.Connect(t, url), "alter table taskengine.task add mine integer not null default 7",
				fmt.Sprintf("insert into taskengine.migration (version, name) values (%d, 'of tomorrow')", newest+1))
		}
	}
	check(after, all[0], exitOK, "all run this version", fmt.Sprintf("a newer program has brought them to version %d", newest+1))
	l.more(t)
	stop()
	loading.Wait()
	for _, typ := range []string{"least", "child"} {
		all[0].ok(t, "task", "wait", "--type", typ, "--timeout", "5m")
	}
	verifyChildren(t, all[0], "least")
	if got := len(all[0].objects(t, "task", "list", "--type", "least", "--state", "done", "--all")); got != l.count() {
		t.Errorf("%d tasks are done, of %d that were added", got, l.count())
	}
	query(t, url, fmt.Sprintf("insert into taskengine.migration (version, name) values (%d, 'of the day after')", newest+2))
	check(after, all[0], exitFailure, fmt.Sprintf("tables: their version is %d", newest+2))
}

// more waits until tasks were added.
func (l *arrivals) more(t *testing.T) {
	t.Helper()
	was := l.count()
	for begin := time.Now(); l.count() == was; time.Sleep(askEvery) {
		if time.Since(begin) > limit {
			t.Fatal("no task was added")
		}
	}
}

func TestAnUpgradeCheckLooksAtEachDatabaseAndTheCoordinator(t *testing.T) {
	t.Parallel()
	main, other := tables(t), databases(t).Database(t)
	check := func(driver, address, main, other string, code int, says ...string) {
		t.Helper()
		storage := onSeveral(main, map[string]string{"other": other})
		file := write(t, "taskengine.yaml", "storage: "+storage+coordinated(driver, address, prefixOf(t)))
		r := cli(t, nil, "", "upgrade", "check", "-c", file, "--address", "127.0.0.1:1")
		for _, want := range says {
			if !strings.Contains(r.stdout, want) {
				t.Errorf("the check lacks %q", want)
			}
		}
		if r.code != code || t.Failed() {
			t.Fatalf("the check ends with %d, want %d:\n%s%s", r.code, code, r.stdout, r.stderr)
		}
	}
	etcd, zookeeper := endpoint(t, config.Etcd), endpoint(t, config.ZooKeeper)
	needs := "and this version needs 3.4 or newer"
	check(config.Etcd, etcd, main, other, exitOK, "ok       server: the database main: it is PostgreSQL", "ok       server: the database other: it is PostgreSQL",
		"ok       tables: the database main: their version is", "step     tables: the database other: there are no tables yet", "ok       coordination: it is etcd 3.", needs, "ok       nodes: none runs")
	if err := makeTables(t, other); err != nil {
		t.Fatal(err)
	}
	query(t, other, fmt.Sprintf("insert into taskengine.migration (version, name) values (%d, 'one'), (%d, 'two')", newest+1, newest+2))
	check(config.ZooKeeper, zookeeper, main, other, exitFailure, "no       tables: the database other: their version is "+fmt.Sprint(newest+2),
		"ok       coordination: it is zookeeper 3.", "and this version needs 3.5 or newer")
	check(config.Etcd, etcd, main, noServer(t), exitPartial, "unknown  server: the database other: ", "ok       tables: the database main: ", needs)
	check(config.Etcd, "127.0.0.1:1", main, tables(t), exitPartial, "unknown  coordination: ")
}
