package dashboard

import (
	"bytes"
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"html/template"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/taskengine/taskengine/internal/access"
	"github.com/taskengine/taskengine/internal/chart"
	taskenginev1 "github.com/taskengine/taskengine/server/proto/taskengine/v1"
)

// treeOnPage is how many tasks of a tree are shown.
const treeOnPage = 200

// linkedTasks is how many tasks are shown that run before or after a task.
const linkedTasks = 50

// errSlow means that there is no answer yet.
var errSlow = errors.New("the store did not answer in time")

func taskPage() page {
	return page{path: "task/{id}", under: "Tasks", template: "task", every: 2 * time.Second, load: loadTask}
}

// taskShown has the values of the page.
type taskShown struct {
	*taskenginev1.Task
	May      mayDo
	Contents []document
	Headers  []header
	Attempts []attempt
	Timeline template.HTML
	Why      *taskenginev1.WhyResponse
	Tree     []*taskenginev1.TreeTask
	More     bool // the tree has more tasks
	Logs     *lines
	Problems []string // why parts are missing
	MoreNext int      // tasks that run after it and are not shown
}

// mayDo says which changes of a task are offered.
type mayDo struct{ Resume, Cancel, Fail, Edit, Delete bool }

// Any reports whether any is.
func (m mayDo) Any() bool { return m != mayDo{} }

// document is a payload or the like, as text.
type document struct{ Name, Text, Note string }

type header struct{ Name, Value string }

// attempt is an attempt that has ended, or the one that runs.
type attempt struct {
	*taskenginev1.Attempt
	Took *durationpb.Duration // nil if it still runs, or is no attempt
}

func loadTask(v *view) (any, error) {
	id := v.PathValue("id")
	v.command = commandLine("task", "get", id)
	t, err := v.task(id)
	if err != nil {
		return nil, err
	}
	s := &taskShown{Task: t}
	s.MoreNext = max(0, len(t.GetFollowers())-linkedTasks)
	v.title = s.GetType() + " " + short(s.GetId())
	v.done = map[string]string{
		"resume": "The task is ready to run.", "cancel": "The task is cancelled.", "fail": "The task has failed for good.", "edit": "The task is changed.",
	}[v.URL.Query().Get("done")]
	s.May = v.mayDo(s.Task)
	s.addContents()
	s.addAttempts(v.now)
	s.loadParts(v, id)
	return s, nil
}

// task returns a task.
func (v *view) task(id string) (*taskenginev1.Task, error) {
	got, err := shared(v, "task\x00"+id, pagePatience, func(ctx context.Context) (*taskenginev1.GetResponse, error) {
		return v.api().Get(ctx, &taskenginev1.GetRequest{Id: id})
	})
	if err == nil && got.Value == nil {
		err = connect.NewError(connect.CodeDeadlineExceeded, errSlow)
	}
	return got.Value.GetTask(), err
}

// mayDo returns the changes of a task in its state that the roles of the person allow.
func (v *view) mayDo(t *taskenginev1.Task) (m mayDo) {
	own := strings.HasPrefix(t.GetType(), "taskengine.") // of the engine
	if !v.may(access.Manage) || own && !(v.may(access.Admin) && (v.token == nil || v.token.IsForAll())) {
		return m
	}
	switch t.GetState() {
	case "waiting":
		return mayDo{Resume: true, Cancel: true, Fail: true, Edit: true}
	case "submitted":
		return mayDo{Cancel: true, Edit: true}
	case "processing":
		return mayDo{Cancel: true}
	case "error":
		return mayDo{Resume: true, Cancel: true, Fail: true, Edit: true}
	case "failed", "cancelled":
		return mayDo{Resume: true, Delete: v.may(access.Admin)}
	case "done":
		return mayDo{Delete: v.may(access.Admin)}
	}
	return m
}

// loadParts asks for what belongs to a task, all at once.
func (s *taskShown) loadParts(v *view, id string) {
	var all sync.WaitGroup
	var mu sync.Mutex // guards s and v below
	part := func(load func() (func(), error)) {
		all.Go(func() {
			add, err := load()
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				s.Problems = append(s.Problems, errorText(err))
				return
			}
			add()
		})
	}
	part(func() (func(), error) {
		why, err := shared(v, "why\x00"+id, nodesPatience, func(ctx context.Context) (*taskenginev1.WhyResponse, error) {
			return v.api().Why(ctx, &taskenginev1.WhyRequest{Id: id, History: true})
		})
		return func() {
			s.Why = why.Value
			v.silent = append(v.silent, why.Value.GetSilent()...)
		}, err
	})
	if len(s.GetChildren()) > 0 {
		part(func() (func(), error) {
			tree, err := shared(v, "tree\x00"+id, nodesPatience, func(ctx context.Context) (*taskenginev1.TreeResponse, error) {
				return v.api().Tree(ctx, &taskenginev1.TreeRequest{Id: id, Limit: treeOnPage})
			})
			return func() { s.Tree, s.More = tree.Value.GetTasks(), tree.Value.GetNextPageToken() != "" }, err
		})
	}
	if !v.isRefresh() { // the script asks for new lines alone
		part(func() (func(), error) {
			got, err := loadLines(v, id, "")
			return func() {
				s.Logs = got
				s.Logs.State = s.GetState()
			}, err
		})
	}
	all.Wait()
}

// addContents adds the payload and the like as texts.
func (s *taskShown) addContents() {
	for _, d := range []struct {
		name    string
		content []byte
	}{{"Payload", s.GetPayload()}, {"Result", s.GetResult()}, {"Checkpoint", s.GetCheckpoint()}} {
		if len(d.content) > 0 {
			s.Contents = append(s.Contents, documentOf(d.name, d.content))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(s.Task.GetHeaders())) {
		s.Headers = append(s.Headers, header{name, s.Task.GetHeaders()[name]})
	}
}

// documentOf returns content as text: JSON with a value in each line, other text as it is, and other bytes in hexadecimal.
func documentOf(name string, content []byte) document {
	const maxHex = 2 << 10
	d := document{Name: name, Note: number(len(content)) + " bytes"}
	var indented bytes.Buffer
	switch {
	case !utf8.Valid(content):
		d.Note += ", not text"
		if len(content) > maxHex {
			d.Note += fmt.Sprintf("; the first %s are shown", number(maxHex))
			content = content[:maxHex]
		}
		d.Text = hex.Dump(content)
	case len(content) <= maxBlock && json.Indent(&indented, content, "", "  ") == nil:
		d.Text = indented.String()
	default:
		d.Text = string(content)
	}
	return d
}

// addAttempts adds the attempts, and draws them.
func (s *taskShown) addAttempts(now time.Time) {
	begin := s.GetCreatedAt().AsTime()
	bars := chart.Bars{X: chart.Axis{Label: "since it was added", Format: showDelayTick}}
	draw := func(label string, style int, from, until time.Time) {
		bars.Rows = append(bars.Rows, chart.Bar{
			Label: label, Value: showDelay(until.Sub(from).Seconds()), Style: style, Bad: style == 1,
			From: max(0, from.Sub(begin).Seconds()), To: max(0, until.Sub(begin).Seconds()),
		})
	}
	for _, a := range s.GetHistory() {
		one := attempt{Attempt: a}
		if a.GetOutcome() != "edited" && a.GetOutcome() != "erased" {
			from, until := a.GetStartedAt().AsTime(), a.GetEndedAt().AsTime()
			one.Took = durationpb.New(until.Sub(from))
			draw(fmt.Sprintf("attempt %d on %s: %s", a.GetNumber(), a.GetNode(), a.GetOutcome()), 1, from, until)
		}
		s.Attempts = append(s.Attempts, one)
	}
	switch s.GetState() {
	case "processing":
		s.Attempts = append(s.Attempts, attempt{Attempt: &taskenginev1.Attempt{Number: s.GetAttempt(), StartedAt: s.GetStartedAt(), Outcome: "running", Node: s.GetNode()}})
		draw(fmt.Sprintf("attempt %d on %s: running", s.GetAttempt(), s.GetNode()), 0, s.GetStartedAt().AsTime(), now)
	case "done":
		if from := s.GetStartedAt(); from != nil {
			until := s.GetUpdatedAt()
			s.Attempts = append(s.Attempts, attempt{
				&taskenginev1.Attempt{Number: s.GetAttempt(), StartedAt: from, EndedAt: until, Outcome: "completed", Node: s.GetNode()}, durationpb.New(until.AsTime().Sub(from.AsTime())),
			})
			draw(fmt.Sprintf("attempt %d on %s: completed", s.GetAttempt(), s.GetNode()), 2, from.AsTime(), until.AsTime())
		}
	}
	if len(bars.Rows) > 0 {
		s.Timeline = bars.Draw("Attempts", "When each attempt ran, in time since the task was added. The table has the same.", "timeline")
	}
}
