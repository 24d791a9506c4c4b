package dashboard

import (
	"context"
	"fmt"
	"net/url"
	"slices"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/taskengine/taskengine/internal/access"
	taskenginev1 "github.com/taskengine/taskengine/server/proto/taskengine/v1"
)

// workflowType is the type of the tasks that are workflows.
const workflowType = "taskengine.workflow"

func workflowsPage() page {
	return page{path: "workflows", name: "Workflows", key: "w", template: "workflows", every: 3 * time.Second, load: loadWorkflows}
}

// workflowList has the values of one list of workflows.
type workflowList struct {
	ID, Title string
	Slow      bool // the query is still under way
	First     bool // this is the first page
	Tasks     []*taskenginev1.Task
	Next      string // the link to the next page; "" at the end
}

// loadWorkflows asks apart for workflows that have not ended, of which a store reads few other tasks, and for those that have, of which it may read many:
// the page does not wait long for the second answer.
func loadWorkflows(v *view) (any, error) {
	v.command = commandLine("task", "list", "--type", workflowType)
	open, err := v.workflows("open", "Open", queryPatience, "waiting", "submitted", "processing", "error")
	if err != nil {
		return nil, err
	}
	ended, err := v.workflows("ended", "Ended", kindsPatience, "done", "failed", "cancelled")
	if err != nil {
		return nil, err
	}
	return []*workflowList{open, ended}, nil
}

// workflows returns the page of a list of workflows that the address says: it has one of each list.
func (v *view) workflows(id, title string, patience time.Duration, states ...string) (*workflowList, error) {
	form := v.URL.Query()
	after := form.Get(id)
	l := &workflowList{ID: id, Title: title, First: after == ""}
	got, err := shared(v, "workflows\x00"+id+"\x00"+after, patience, func(ctx context.Context) (*taskenginev1.ListResponse, error) {
		return v.api().List(ctx, &taskenginev1.ListRequest{Types: []string{workflowType}, States: states, Limit: tasksOnPage, PageToken: after})
	})
	if err != nil {
		return nil, err
	}
	l.Slow, l.Tasks = got.Value == nil, got.Value.GetTasks()
	if next := got.Value.GetNextPageToken(); next != "" {
		form.Set(id, next)
		l.Next = v.d.Base + "workflows?" + form.Encode()
	}
	return l, nil
}

func workflowPage() page {
	return page{path: "workflow/{id}", under: "Workflows", template: "workflow", every: 2 * time.Second, load: loadWorkflow}
}

// workflowShown has the values of the page of one workflow.
type workflowShown struct {
	*taskenginev1.Workflow
	Steps  []stepShown
	Graph  graph
	Output document
	Retry  bool // the person may have it run again
	Cancel bool // and cancel it
}

// stepShown is a step.
type stepShown struct {
	*taskenginev1.WorkflowStep
	Took *durationpb.Duration // nil if it has not ended
}

func loadWorkflow(v *view) (any, error) {
	id := v.PathValue("id")
	v.command = commandLine("workflow", "show", id)
	got, err := shared(v, "workflow\x00"+id, pagePatience, func(ctx context.Context) (*taskenginev1.GetWorkflowResponse, error) {
		return v.api().GetWorkflow(ctx, &taskenginev1.GetWorkflowRequest{Id: id})
	})
	if err != nil {
		return nil, err
	}
	w := &workflowShown{Workflow: got.Value.GetWorkflow()}
	v.title = "Workflow " + w.GetName()
	for _, s := range w.Workflow.GetSteps() {
		one := stepShown{WorkflowStep: s}
		if s.GetBegan() != nil && s.GetEnded() != nil {
			one.Took = durationpb.New(s.GetEnded().AsTime().Sub(s.GetBegan().AsTime()))
		}
		w.Steps = append(w.Steps, one)
	}
	w.Graph = graphOf(w.Workflow.GetSteps())
	for i := range w.Graph.Boxes {
		ids := w.Workflow.GetSteps()[i].GetTaskIds()
		w.Graph.Boxes[i].To = fmt.Sprintf("%sworkflow/%s#step-%d", v.d.Base, url.PathEscape(id), i)
		if len(ids) == 1 {
			w.Graph.Boxes[i].To = v.d.Base + "task/" + url.PathEscape(ids[0])
		}
	}
	if w.GetOutput() != "" {
		w.Output = documentOf("Output", []byte(w.GetOutput()))
	}
	if v.may(access.Manage) {
		switch w.GetTask().GetState() {
		case "error", "failed", "cancelled":
			w.Retry = true
		case "done":
		default:
			w.Cancel = true
		}
	}
	return w, nil
}

func workflowActions() []action {
	to := func(v *view) string { return "workflow/" + v.PathValue("id") }
	return []action{
		{"workflow/{id}/retry", func(v *view) (string, error) {
			_, err := v.api().RetryWorkflow(v.ctx, &taskenginev1.RetryWorkflowRequest{Id: v.PathValue("id"), From: v.PostFormValue("from")})
			return to(v), err
		}},
		{"workflow/{id}/cancel", func(v *view) (string, error) {
			_, err := v.api().Cancel(v.ctx, &taskenginev1.CancelRequest{Id: v.PathValue("id"), Reason: v.PostFormValue("reason"), Tree: true})
			return to(v), err
		}},
	}
}

// Sizes of a graph, in pixels.
const (
	boxWidth  = 150
	boxHeight = 44
	boxGapX   = 56
	boxGapY   = 18
	mostSteps = 300 // that are drawn
)

// graph is a drawing of steps: the first steps are at the left, and lines lead from a step to its successors.
type graph struct {
	Width, Height int
	Boxes         []box
	Lines         []string // paths of SVG
}

type box struct {
	X, Y, Width, Height int
	TextX, NameY, SaysY int
	Name, Says          string
	State               string
	To                  string // the link to its task, or to its row
}

// graphOf draws steps, which come in an order in which they may run.
func graphOf(steps []*taskenginev1.WorkflowStep) (g graph) {
	if len(steps) > mostSteps {
		return g
	}
	at := make(map[string]int) // the place of a step in g.Boxes
	column := make(map[string]int)
	var rows []int // how many boxes each column has
	for _, s := range steps {
		c := 0
		for _, before := range s.GetAfter() {
			if n, ok := column[before]; ok {
				c = max(c, n+1)
			}
		}
		for len(rows) <= c {
			rows = append(rows, 0)
		}
		x, y := c*(boxWidth+boxGapX)+2, rows[c]*(boxHeight+boxGapY)+2
		rows[c]++
		says := s.GetState()
		if n := s.GetCount(); n > 1 {
			says = fmt.Sprintf("%s, %d of %d", says, s.GetDone(), n)
		}
		column[s.GetName()], at[s.GetName()] = c, len(g.Boxes)
		g.Boxes = append(g.Boxes, box{
			X: x, Y: y, Width: boxWidth, Height: boxHeight, TextX: x + 10, NameY: y + 18, SaysY: y + 35,
			Name: fitted(s.GetName()), Says: says, State: s.GetState(),
		})
	}
	for _, s := range steps {
		to := g.Boxes[at[s.GetName()]]
		for _, before := range s.GetAfter() {
			i, ok := at[before]
			if !ok {
				continue
			}
			from := g.Boxes[i]
			x1, y1, x2, y2 := from.X+boxWidth, from.Y+boxHeight/2, to.X, to.Y+boxHeight/2
			g.Lines = append(g.Lines, fmt.Sprintf("M%d %dC%d %d %d %d %d %d", x1, y1, x1+boxGapX/2, y1, x2-boxGapX/2, y2, x2, y2))
		}
	}
	if len(rows) > 0 {
		g.Width, g.Height = len(rows)*(boxWidth+boxGapX)-boxGapX+4, slices.Max(rows)*(boxHeight+boxGapY)-boxGapY+4
	}
	return g
}

// fitted returns a name that fits into a box.
func fitted(name string) string {
	const most = 18
	if runes := []rune(name); len(runes) > most {
		return string(runes[:most-1]) + "…"
	}
	return name
}
