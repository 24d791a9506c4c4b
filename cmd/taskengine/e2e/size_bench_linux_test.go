//go:build !race

package e2e

import (
	"context"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/taskengine/taskengine/internal/pgtest"
	taskenginev1 "github.com/taskengine/taskengine/server/proto/taskengine/v1"
	"github.com/taskengine/taskengine/server/proto/taskengine/v1/taskenginev1connect"
	"github.com/taskengine/taskengine/storage"
	"github.com/taskengine/taskengine/storage/pebble"
	"github.com/taskengine/taskengine/storage/postgres"
	"github.com/taskengine/taskengine/task"
)

var sizeRows = flag.Int("size.rows", 100_000, "how many tasks a store has in BenchmarkSize")

// sizeConfig makes a node with a plugin and a type whose tasks are found by attributes.
const sizeConfig = `
node: {slots: 1024, name: n1}
storage: %s
ui: {}
api: {tokens: %q}
task_log: {path: %q}
handlers: {go: {plugin: [%q], env: {%s: plugin, LOAD: %q}, slots: 512}}
types:
  shout: {handler: go}
  mail: {handler: go}
  load: {handler: go}
  order: {handler: go, search: [payload.customer, payload.order, headers.tenant]}
`

const (
	sizeToken  = "TASKENGINE_TOKEN"
	sizeTimes  = 7 // calls of a request
	sizeRounds = 3 // of a load with and without a job or pages
	sizeLong   = time.Hour
)

// size is a node with many tasks.
type size struct {
	*sizeFiller
	n      *running
	file   string // its configuration
	folder string // of its store; "" on PostgreSQL
	url    string // of its database; "" on pebble
	notes  string // of the load
	tokens []string
	api    taskenginev1connect.TaskServiceClient
}

// BenchmarkSize measures requests of operators to a node with -size.rows tasks, of which a tenth is in error: the medians of some calls, the first of
// them ("first-ms"), and the median divided by the goal ("of-goal"). Run it with -benchtime 1x and -timeout 2h. TMPDIR names the disk of PostgreSQL.
func BenchmarkSize(b *testing.B) {
	for _, driver := range []string{"pebble", "postgres"} {
		b.Run("store="+driver, func(b *testing.B) {
			s := newSize(b, driver)
			s.benchmarkPages(b)
			b.Run("requests", s.benchmarkRequests)
			b.Run("list", s.benchmarkList)
			b.Run("resume", s.benchmarkResume)
			b.Run("bulk", s.benchmarkBulk)
			if driver == "pebble" {
				b.Run("doctor", s.benchmarkDoctor)
			} else {
				b.Run("doctor", s.benchmarkDatabase)
			}
		})
	}
}

// newSize returns a node of which the attributes have an index for all tasks.
func newSize(b *testing.B, driver string) *size {
	disk := diskFolder(b)
	s := &size{sizeFiller: newSizeFiller(b, *sizeRows), notes: filepath.Join(disk, "notes")}
	var where string
	if driver == "pebble" {
		s.folder = filepath.Join(disk, "data")
		where = fmt.Sprintf("{driver: pebble, path: %q}", s.folder)
	} else {
		server, err := pgtest.Start("max_wal_size=2GB", "shared_buffers=512MB")
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(func() { server.Close() })
		s.url = server.Database(b)
		if r := cli(b, nil, "", "migrate", "apply", "--url", s.url); r.code != 0 {
			b.Fatal(r.stderr)
		}
		where = onPostgres(s.url)
	}
	s.file = write(b, "taskengine.yaml", fmt.Sprintf(sizeConfig, where, filepath.Join(disk, "tokens.json"), filepath.Join(disk, "logs"), executable(b), role, s.notes))
	for i := range sizeTimes {
		r := cli(b, nil, "", "token", "create", fmt.Sprint("t", i), "-c", s.file, "--role", "admin", "--role", "submit")
		if r.code != 0 {
			b.Fatal(r.stderr)
		}
		s.tokens = append(s.tokens, strings.TrimSpace(r.stdout))
	}
	s.start(b)
	s.awaitIndex(b)
	s.stop(b)
	s.now = time.Now()
	begin := time.Now()
	if driver == "pebble" {
		store, err := pebble.Open(s.folder, pebble.Options{})
		s.fillAndClose(b, store, err)
	} else {
		store, err := postgres.Open(b.Context(), s.url, postgres.Options{})
		s.fillAndClose(b, store, err)
		c := pgtest.Connect(b, s.url)
		if _, err := c.Exec(b.Context(), "vacuum analyze", pgx.QueryExecModeSimpleProtocol); err != nil { // as the server does by itself after a while
			b.Fatal(err)
		}
	}
	b.Logf("filled with %d tasks in %v", s.rows, time.Since(begin).Round(time.Second))
	s.start(b)
	return s
}

func (s *size) fillAndClose(b *testing.B, store storage.Store, err error) {
	if err != nil {
		b.Fatal(err)
	}
	s.fill(b, store)
	if err := store.Close(); err != nil {
		b.Fatal(err)
	}
}

func (s *size) start(b *testing.B) {
	s.n = start(b, nil, "run", "-c", s.file)
	web := &http.Client{Transport: withToken(s.tokens[0])}
	b.Cleanup(web.CloseIdleConnections)
	s.api = taskenginev1connect.NewTaskServiceClient(web, "http://"+s.n.api)
}

func (s *size) stop(b *testing.B) {
	if err := s.n.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		b.Fatal(err)
	}
	<-s.n.ended
}

// withToken sends requests with a token.
type withToken string

func (t withToken) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+string(t))
	return http.DefaultTransport.RoundTrip(r)
}

// awaitIndex waits until the attributes of the type order have an index.
func (s *size) awaitIndex(b *testing.B) {
	for begin := time.Now(); ; time.Sleep(50 * time.Millisecond) {
		found := 0
		for _, where := range []string{"payload.customer=1", "payload.order=1", "header.tenant=t"} {
			if res, err := s.api.List(b.Context(), &taskenginev1.ListRequest{Where: "type=order " + where}); err == nil && res.GetIndex() != "" {
				found++
			}
		}
		if found == 3 {
			return
		}
		if time.Since(begin) > limit {
			b.Fatal("the attributes of the type order have no index")
		}
	}
}

// times reports the median of calls.
func times(b *testing.B, goal time.Duration, calls int, call func(i int) error) {
	b.Helper()
	var took []time.Duration
	for i := range calls {
		begin := time.Now()
		if err := call(i); err != nil {
			b.Fatal(err)
		}
		took = append(took, time.Since(begin))
	}
	report(b, goal, took)
}

func report(b *testing.B, goal time.Duration, took []time.Duration) {
	first := took[0]
	slices.Sort(took)
	median := took[len(took)/2]
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(ms(median), "median-ms")
	b.ReportMetric(ms(first), "first-ms")
	if goal > 0 {
		b.ReportMetric(float64(median)/float64(goal), "of-goal")
	}
}

func ms(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

// benchmarkPages measures the pages of the dashboard that show much, each as people with different tokens see it first, and again.
func (s *size) benchmarkPages(b *testing.B) {
	for name, path := range map[string]string{
		"overview": "", "tasks": "tasks", "in error": "tasks?q=state%3Derror", "done": "tasks?q=state%3Ddone", "errors": "errors", "bulk": "bulk", "limits": "limits",
		"schedules": "schedules", "nodes": "nodes", "workflows": "workflows", "alerts": "alerts", "sources": "sources",
	} {
		goal := 300 * time.Millisecond
		if path == "" {
			goal = 100 * time.Millisecond
		}
		b.Run("page="+name, func(b *testing.B) {
			times(b, goal, len(s.tokens), func(i int) error { return view(b, s.n, path, s.tokens[i]) })
		})
	}
}

// view reads a page as the owner of a token.
func view(b *testing.B, n *running, path, token string) error {
	r, err := requestOfPage(b.Context(), n.api, path, token)
	if err != nil {
		return err
	}
	res, err := http.DefaultTransport.RoundTrip(r)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err == nil && res.StatusCode != 200 {
		err = fmt.Errorf("%s gives %d: %.300s", path, res.StatusCode, text)
	}
	return err
}

// benchmarkRequests measures pages of 50 tasks by each filter that an index serves, and counts.
func (s *size) benchmarkRequests(b *testing.B) {
	rare, often := task.KindOfError(sizeError(0, 0)).String(), task.KindOfError(sizeError(3, 0)).String()
	last := (s.rows - 1) / 10 * 10
	for _, where := range []string{
		"", "state=waiting", "state=error", "state=submitted", "state=processing", "state=failed", "type=taskengine.workflow", "state=waiting type=mail", "state=error type=mail", "state=error node=n1", "state=error error.kind=" + rare, "state=error error.kind=" + often,
		"state=error type=order error.kind=" + often, "state=error error.kind=" + often[:4], "type=order,mail state=error error.kind=" + rare + "," + often, "type=order payload.customer=70", fmt.Sprint("type=order payload.order=", last), "type=order header.tenant=t3",
		"type=order payload.customer=70 header.tenant=t7", "type=order state=error payload.customer=70 error.kind=" + often, fmt.Sprintf("key=%q", fmt.Sprint("key ", last/100*100+7)), "state=done",
	} {
		b.Run("page/"+where, func(b *testing.B) {
			var res *taskenginev1.ListResponse
			times(b, 50*time.Millisecond, sizeTimes, func(int) (err error) {
				res, err = s.api.List(b.Context(), &taskenginev1.ListRequest{Where: where, Limit: 50})
				return err
			})
			b.ReportMetric(float64(len(res.GetTasks())), "tasks")
			b.ReportMetric(float64(res.GetRead()), "read")
			if token := res.GetNextPageToken(); token != "" {
				begin := time.Now()
				if _, err := s.api.List(b.Context(), &taskenginev1.ListRequest{Where: res.GetWhere(), Limit: 50, PageToken: token}); err != nil {
					b.Fatal(err)
				}
				b.ReportMetric(ms(time.Since(begin)), "next-ms")
			}
		})
	}
	for _, where := range []string{"", "state=error", "state=error error.kind=" + rare, "state=error type=order error.kind=" + often} {
		b.Run("count/"+where, func(b *testing.B) {
			goal, calls := 300*time.Millisecond, sizeTimes
			if where == "" { // pebble reads all tasks
				goal, calls = 0, 1
			}
			times(b, goal, calls, func(int) error {
				_, err := s.api.Count(b.Context(), &taskenginev1.CountRequest{Where: where})
				return err
			})
		})
	}
	for _, types := range [][]string{nil, {"order"}} {
		b.Run(fmt.Sprint("errors/", types), func(b *testing.B) {
			times(b, 300*time.Millisecond, sizeTimes, func(int) error {
				res, err := s.api.ListErrors(b.Context(), &taskenginev1.ListErrorsRequest{Types: types})
				if err == nil && len(res.GetKinds()) != sizeKinds {
					err = fmt.Errorf("there are %d kinds", len(res.GetKinds()))
				}
				return err
			})
		})
	}
}

// command runs a command of the program to its end.
func (s *size) command(b *testing.B, args ...string) (took, cpu time.Duration, lines int) {
	b.Helper()
	ctx, cancel := context.WithTimeout(b.Context(), sizeLong)
	defer cancel()
	cmd := program(ctx, b, []string{sizeToken + "=" + s.tokens[0], "TASKENGINE_ADDRESS=" + s.n.api, "TMPDIR=/var/tmp"}, args...)
	begin := time.Now()
	lines = linesOf(b, cmd)
	return time.Since(begin), cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime(), lines
}

// linesOf runs a program, and returns how many lines it has written.
func linesOf(b *testing.B, cmd *exec.Cmd) (lines int) {
	b.Helper()
	var counted lineCounter
	var errs strings.Builder
	cmd.Stdout, cmd.Stderr = &counted, &errs
	if err := cmd.Run(); err != nil {
		b.Fatalf("%v: %v: %s", cmd.Args[1:], err, errs.String())
	}
	return int(counted)
}

type lineCounter int

func (c *lineCounter) Write(p []byte) (int, error) {
	*c += lineCounter(strings.Count(string(p), "\n"))
	return len(p), nil
}

// benchmarkList lists all tasks, or a tenth of them: those in error, if there are many.
func (s *size) benchmarkList(b *testing.B) {
	args, want := []string{"task", "list", "--all", "-o", "json"}, s.rows
	if s.rows > 1_000_000 {
		args, want = append(args, "--where", "state=error"), s.rows/10
	}
	pid := strconv.Itoa(s.n.cmd.Process.Pid)
	before := cpuOf(b, pid)
	took, cpu, lines := s.command(b, args...)
	b.ReportMetric((cpuOf(b, pid)-before).Seconds()*1e6/float64(lines), "node-cpu-s/million")
	b.ReportMetric(cpu.Seconds()*1e6/float64(lines), "client-cpu-s/million")
	if lines < want {
		b.Fatalf("%d of %d tasks are listed", lines, want)
	}
	b.ReportMetric(took.Seconds(), "s")
	b.ReportMetric(took.Seconds()*1e6/float64(lines), "s/million")
	b.ReportMetric(took.Seconds()*1e6/float64(lines)/20, "of-goal")
	b.ReportMetric(0, "ns/op")
}

// benchmarkResume finds the tasks with the error of the first kind, and runs them again.
func (s *size) benchmarkResume(b *testing.B) {
	where := "state=error error.kind=" + task.KindOfError(sizeError(0, 0)).String()
	took, _, lines := s.command(b, "task", "list", "--all", "--where", where, "-o", "json")
	b.ReportMetric(float64(lines), "tasks")
	b.ReportMetric(ms(took), "find-ms")
	begin := time.Now()
	s.command(b, "task", "resume", "--where", where)
	b.ReportMetric(ms(time.Since(begin)), "resume-ms")
	for {
		res, err := s.api.Count(b.Context(), &taskenginev1.CountRequest{Where: "type=order state=submitted"})
		if err != nil {
			b.Fatal(err)
		}
		if len(res.GetCounts()) == 0 {
			break
		}
		if time.Since(begin) > limit {
			b.Fatalf("they have not begun: %v", res)
		}
	}
	b.ReportMetric(ms(time.Since(begin)), "begun-ms")
	b.ReportMetric(took.Seconds()/0.5, "find-of-goal")
	b.ReportMetric(time.Since(begin).Seconds()/5, "begun-of-goal")
	b.ReportMetric(0, "ns/op")
}
