//go:build unix

// Package orders_test runs the example of this folder: three nodes fetch the orders of three platforms, while nodes, the
// coordinator and platforms fail, and values are changed. At the end a witness compares the orders with those of the platforms.
package orders_test

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"go/parser"
	"go/token"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/taskengine/taskengine/internal/pgtest"
)

var ( // set once, before the tests
	server   *pgtest.Server
	programs string // the folder
)

var (
	longer = flag.Duration("for", 0, "how long nodes are killed and so on, over and over; by default each event comes once")
	seed   = flag.Uint64("seed", uint64(time.Now().UnixNano()), "selects the order of the events")
)

func TestMain(m *testing.M) {
	flag.Parse()
	var err error
	code := 1
	if programs, err = build(); err == nil {
		code = pgtest.Run(m, func(s *pgtest.Server) { server = s })
	}
	if err := errors.Join(err, os.RemoveAll(programs)); err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = max(code, 1)
	}
	os.Exit(code)
}

// shown is a platform, as taskengine source show prints it.
type shown struct {
	Name    string
	Cursor  time.Time
	Low     time.Time `json:"low_water"`
	Failed  int
	Stopped *struct{}
	History []struct {
		At   time.Time
		What string
	}
}

// platform returns what taskengine source show prints of a platform.
func (f *fleet) platform(t *testing.T, name string) (p shown) {
	t.Helper()
	if text := f.ask(t, "source", "show", "orders/"+name, "-o", "json"); json.Unmarshal([]byte(text), &p) != nil {
		t.Errorf("source show prints %q", text)
	}
	return p
}

// finish waits until all is fetched that the platforms have until end. What has failed is retried, as a person would do it.
func (f *fleet) finish(t *testing.T, end time.Time) {
	t.Helper()
	await(t, "everything is fetched", func() bool {
		isDone := true
		for _, name := range platforms {
			p := f.platform(t, name)
			if p.Failed > 0 && p.Stopped == nil {
				say("a slice of %s has failed: it is retried", name)
				f.ask(t, "source", "retry", "orders/"+name)
			}
			isDone = isDone && !p.Low.Before(end)
		}
		return isDone || t.Failed()
	})
}

func TestEveryOrderIsFetchedWhateverHappens(t *testing.T) {
	const history = 45 * time.Second
	w := newWorld(t, history)
	f := newFleet(t, w, "n1", "n2", "n3")
	say("three nodes fetch the orders of three platforms; they have %v to catch up (-seed %d)", history, *seed)
	s := newStorm(t, w, f)
	s.rage(*longer)
	end := w.close(t)
	say("the platforms get no more orders; the nodes catch up")
	f.finish(t, end)
	fmt.Println(f.ask(t, "source", "list"))
	for name := range f.nodes {
		f.end(t, name, syscall.SIGTERM)
	}
	w.report(t)
	said, code := w.witness(t, end, s.resets())
	fmt.Println(said)
	if code != 0 {
		t.Fatal("the witness has found differences")
	}
	w.spoil(t, end, s.resets())
}

// report prints how the platforms have answered, and checks that they have failed.
func (w *world) report(t *testing.T) {
	t.Helper()
	var answers map[string]map[string]int
	text := w.control(t, http.MethodGet, "answers")
	if err := json.Unmarshal(text, &answers); err != nil {
		t.Fatal(err)
	}
	sum := make(map[string]int)
	for _, name := range platforms {
		var list []string
		for kind, n := range answers[name] {
			sum[kind] += n
			list = append(list, fmt.Sprintf("%d %s", n, kind))
		}
		slices.Sort(list)
		say("%s has answered: %s", name, strings.Join(list, ", "))
	}
	for _, kind := range []string{"down", "error 500", "closed", "cut off", "slow"} {
		if sum[kind] == 0 {
			t.Errorf("no answer was %q: %s", kind, text)
		}
	}
}

// spoil changes the table and the tasks behind the back of the engine, and checks that the witness notices it.
func (w *world) spoil(t *testing.T, end time.Time, resets string) {
	t.Helper()
	c := pgtest.Connect(t, w.database)
	for _, one := range []struct{ sql, undo, want string }{
		{
			"create table kept as select * from orders where (platform, number) = (select platform, min(number) from orders where platform = 'market' group by platform); delete from orders using kept where (orders.platform, orders.number) = (kept.platform, kept.number)",
			"insert into orders select * from kept", "order M-000001 of",
		},
		{"insert into orders (platform, number, changed, status, cents) values ('shop', 'S-0', now(), 'new', 1)", "delete from orders where number = 'S-0'", "order S-0 is in the table, and its platform does not know it"},
		{"update orders set cents = cents + 1 where number = 'D-000002'", "update orders set cents = cents - 1 where number = 'D-000002'", "order D-000002 is"},
		{"delete from taskengine.ended where id = (select id from taskengine.tasks where type = 'fetch' and parent is null order by payload::json->>'start' limit 1)", "", "no slice has the time from"},
	} {
		pgtest.Exec(t, c, one.sql)
		if said, code := w.witness(t, end, resets); code != 1 || !strings.Contains(said, one.want) {
			t.Errorf("after %q the witness ends with %d, and says:\n%s", one.sql, code, said)
		}
		if one.undo != "" {
			pgtest.Exec(t, c, one.undo)
		}
	}
}

// A fetcher that loses some orders, and nothing else, is found out.
func TestTheWitnessNoticesThatAFetcherLosesOrders(t *testing.T) {
	w := newWorld(t, 10*time.Second, "LOSE=00007")
	f := newFleet(t, w, "n1")
	end := w.close(t)
	f.finish(t, end)
	said, code := w.witness(t, end, "")
	if code != 1 || strings.Count(said, "WRONG") != 3 || !strings.Contains(said, "order S-000007 of") || !strings.Contains(said, "is not in the table") {
		t.Errorf("the witness ends with %d, and says:\n%s", code, said)
	}
	say("a fetcher that loses the orders with the number 7 is found out:\n%s", said)
}

// The witness is worth something only if it has its own code.
func TestTheWitnessImportsNothingOfThisModule(t *testing.T) {
	files, err := filepath.Glob("witness/*.go")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	for _, name := range files {
		f, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ImportsOnly)
		if err != nil {
			t.Fatal(err)
		}
		for _, one := range f.Imports {
			if strings.Contains(one.Path.Value, "taskengine") {
				t.Errorf("%s imports %s", name, one.Path.Value)
			}
		}
	}
}
