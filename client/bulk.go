package client

import (
	"context"
	"iter"
	"strings"
	"time"

	taskenginev1 "github.com/taskengine/taskengine/server/proto/taskengine/v1"
	"github.com/taskengine/taskengine/server/proto/taskengine/v1/taskenginev1connect"
	"github.com/taskengine/taskengine/task"
)

// BulkVerb is the change that a bulk job makes to each task. A node of a newer version may have others.
type BulkVerb string

// The verbs of bulk jobs.
const (
	BulkResume     BulkVerb = "resume"
	BulkCancel     BulkVerb = "cancel"
	BulkFail       BulkVerb = "fail"
	BulkReschedule BulkVerb = "reschedule"
	BulkSet        BulkVerb = "set"
	BulkDelete     BulkVerb = "delete"
	BulkErase      BulkVerb = "erase" // removes the content of tasks that have ended or are in [StateError], which become failed
	BulkUndo       BulkVerb = "undo"  // gives tasks back what they had before another job changed them, unless they have changed since
)

// BulkOrder selects tasks and their change by a bulk job.
type BulkOrder struct {
	Verb   BulkVerb
	Where  string        // a filter, as in [TaskFilter]; [WhereIDs] selects tasks by their ids. A filter without states selects the states of the verb
	Types  []string      // only tasks of these types; none: all
	Reason string        // of BulkCancel and BulkFail; kept as the error of the tasks
	At     time.Time     // of BulkReschedule and BulkSet, or In
	In     time.Duration // from now on
	Values *TaskValues   // of BulkSet
	Job    string        // of BulkUndo, which has no Where and no Types: the job that is undone; it has ended
}

// WhereIDs returns the filter that selects the tasks with these ids, at most about 200 of them.
func WhereIDs(ids ...task.ID) string {
	return "id=" + strings.Join(all(ids, task.ID.String), ",")
}

// TaskValues are new values of a task. A nil field leaves the value as it is.
type TaskValues struct {
	Priority      *uint8
	Payload       *[]byte
	Headers       map[string]string // others stay as they are
	RemoveHeaders []string
}

// BulkStart has the parameters of [Client.StartBulkJob] besides the order.
type BulkStart struct {
	Name string  // of letters, digits, ., - and _; empty: the node makes one of the time. A call with the same name and order starts no second job
	Rate float64 // tasks in a second; 0 is as fast as possible
	By   string  // who orders it; with a token, the name of that comes first
}

// BulkPhase says whether a bulk job runs. A node of a newer version may have others.
type BulkPhase string

// The phases of a bulk job.
const (
	BulkRunning BulkPhase = "running"
	BulkPaused  BulkPhase = "paused"
	BulkDone    BulkPhase = "done"
	BulkStopped BulkPhase = "stopped"
	BulkEnded   BulkPhase = "ended" // its task was cancelled or failed by hand
)

// BulkJob is a bulk job at one moment.
type BulkJob struct {
	Name          string
	Phase         BulkPhase
	Verb          BulkVerb
	Where         string // the filter with its times
	Types         []string
	Reason        string
	At            time.Time
	Rate          float64 // tasks in a second; 0 is as fast as possible
	By            string
	OrderedAt     time.Time
	BegunAt       time.Time
	EndedAt       time.Time
	Total         int64         // tasks that the filter selected at the order
	TotalComplete bool          // these were all; if not, there were more
	Changed       int64         // tasks that the job has changed
	Skipped       int64         // that were gone, or did not match any more, when the job came to them
	Refused       int64         // of which the state does not allow it
	Unclear       int64         // of which a node that died has left open whether the job has changed them
	Read          int64         // tasks that were read to find them
	Refusals      []BulkRefusal // the first 100; the log of the task of the job has all
	History       []BulkEvent   // the newest orders of people, at most 50
	TaskID        task.ID       // of the job
	Undoes        string        // of BulkUndo: the job that it undoes
	Problem       string        // why it does not go on
}

// HasEnded reports whether a job is over.
func (j *BulkJob) HasEnded() bool { return j.Phase != BulkRunning && j.Phase != BulkPaused }

// BulkRefusal says why a bulk job did not change a task.
type BulkRefusal struct {
	TaskID task.ID
	Reason string
}

// BulkEvent is an order that a person has given to a bulk job.
type BulkEvent struct {
	At     time.Time
	By     string
	What   string
	Reason string
}

// BulkPreview says which tasks a bulk job would change.
type BulkPreview struct {
	Where    string           // the filter with its times
	Tasks    int64            // that it selects
	Complete bool             // these are all; if not, there are more
	Read     int64            // how many tasks were read at least
	Total    int64            // of how many tasks these were, as in [ErrorKinds]
	Index    string           // the field of the index by which they were found, likewise
	States   map[string]int64 // of the tasks
	Kinds    []BulkKind       // of their errors, the most frequent first, at most 20
	Left     map[string]int64 // of BulkUndo: tasks that stay as they are, by the reason; of BulkSet: tasks that could not be undone, likewise
	Samples  []*Task          // the newest of the tasks, at most 10, without payload, result and checkpoint
}

// BulkKind are the tasks of a preview with an error of one kind.
type BulkKind struct {
	Kind    string // for a filter: error.kind=...
	Pattern string // the error without numbers, ids and addresses
	Tasks   int64
	Sample  task.ID // the newest of the tasks
	Error   string  // its error
}

// PreviewBulkJob says which tasks a bulk job would change now. It changes nothing.
func (c *Client) PreviewBulkJob(ctx context.Context, o BulkOrder) (*BulkPreview, error) {
	req := &taskenginev1.PreviewBulkJobRequest{Order: orderMessage(&o)}
	res, err := call[taskenginev1.PreviewBulkJobResponse](ctx, c, taskenginev1connect.TaskServicePreviewBulkJobProcedure, req, true)
	if err != nil {
		return nil, err
	}
	var d decoder
	p := d.bulkPreview(res)
	if d.err != nil {
		return nil, d.err
	}
	return p, nil
}

// StartBulkJob has the nodes change all tasks that a filter selects now, each once, and returns the job that does so. The job goes on
// without the client; [Client.BulkJob] says how far it is. With [BulkStart.Name] the call may be repeated.
func (c *Client) StartBulkJob(ctx context.Context, o BulkOrder, s BulkStart) (*BulkJob, error) {
	req := &taskenginev1.StartBulkJobRequest{Order: orderMessage(&o), Name: s.Name, Rate: s.Rate, By: s.By}
	res, err := call[taskenginev1.StartBulkJobResponse](ctx, c, taskenginev1connect.TaskServiceStartBulkJobProcedure, req, s.Name != "")
	return decodeBulkJob(res.GetJob(), err)
}

// BulkJob returns a bulk job. The error wraps [ErrNotFound] if there is none with the name. Jobs are kept for 30 days after their end.
func (c *Client) BulkJob(ctx context.Context, name string) (*BulkJob, error) {
	req := &taskenginev1.GetBulkJobRequest{Name: name}
	res, err := call[taskenginev1.GetBulkJobResponse](ctx, c, taskenginev1connect.TaskServiceGetBulkJobProcedure, req, true)
	return decodeBulkJob(res.GetJob(), err)
}

// BulkJobs returns the bulk jobs without their Refusals and History, the newest first. It ends after an error. Each page is a call with a time limit of its own,
// if ctx has none.
func (c *Client) BulkJobs(ctx context.Context) iter.Seq2[*BulkJob, error] {
	return func(yield func(*BulkJob, error) bool) {
		for req := new(taskenginev1.ListBulkJobsRequest); ; {
			res, err := call[taskenginev1.ListBulkJobsResponse](ctx, c, taskenginev1connect.TaskServiceListBulkJobsProcedure, req, true)
			if err != nil {
				yield(nil, err)
				return
			}
			for _, m := range res.GetJobs() {
				if j, err := decodeBulkJob(m, nil); !yield(j, err) || err != nil {
					return
				}
			}
			if req.PageToken = res.GetNextPageToken(); req.PageToken == "" {
				return
			}
		}
	}
}

// PauseBulkJob has a bulk job change no more tasks until ContinueBulkJob. Of the tasks that it is at, some may still be changed.
func (c *Client) PauseBulkJob(ctx context.Context, name, by, reason string) (*BulkJob, error) {
	req := &taskenginev1.PauseBulkJobRequest{Name: name, By: by, Reason: reason}
	res, err := call[taskenginev1.PauseBulkJobResponse](ctx, c, taskenginev1connect.TaskServicePauseBulkJobProcedure, req, true)
	return decodeBulkJob(res.GetJob(), err)
}

// ContinueBulkJob ends a pause.
func (c *Client) ContinueBulkJob(ctx context.Context, name, by, reason string) (*BulkJob, error) {
	req := &taskenginev1.ContinueBulkJobRequest{Name: name, By: by, Reason: reason}
	res, err := call[taskenginev1.ContinueBulkJobResponse](ctx, c, taskenginev1connect.TaskServiceContinueBulkJobProcedure, req, true)
	return decodeBulkJob(res.GetJob(), err)
}

// SetBulkJobRate changes how many tasks a bulk job changes in a second; 0 is as many as possible.
func (c *Client) SetBulkJobRate(ctx context.Context, name string, rate float64, by string) (*BulkJob, error) {
	req := &taskenginev1.SetBulkJobRateRequest{Name: name, Rate: rate, By: by}
	res, err := call[taskenginev1.SetBulkJobRateResponse](ctx, c, taskenginev1connect.TaskServiceSetBulkJobRateProcedure, req, true)
	return decodeBulkJob(res.GetJob(), err)
}

// StopBulkJob ends a bulk job. Tasks that it has changed stay so.
func (c *Client) StopBulkJob(ctx context.Context, name, by, reason string) (*BulkJob, error) {
	req := &taskenginev1.StopBulkJobRequest{Name: name, By: by, Reason: reason}
	res, err := call[taskenginev1.StopBulkJobResponse](ctx, c, taskenginev1connect.TaskServiceStopBulkJobProcedure, req, true)
	return decodeBulkJob(res.GetJob(), err)
}

// Set gives a task other values, and returns it as [Client.Cancel] does. The task is waiting, submitted or in [StateError], and stays so; its history has the
// old values. by is who does so; with a token, the name of that comes first.
func (c *Client) Set(ctx context.Context, id task.ID, v TaskValues, by string, options ...ChangeOption) (*Task, error) {
	req := &taskenginev1.SetTaskRequest{Id: id.String(), Version: versionOf(options), Values: valuesMessage(&v), By: by}
	res, err := call[taskenginev1.SetTaskResponse](ctx, c, taskenginev1connect.TaskServiceSetTaskProcedure, req, false)
	if err != nil {
		return nil, err
	}
	return decodeTask(res.GetTask())
}

// Delete removes a task that is done, has failed or was cancelled, and returns it as it was, without payload, result and checkpoint.
func (c *Client) Delete(ctx context.Context, id task.ID, options ...ChangeOption) (*Task, error) {
	req := &taskenginev1.DeleteTaskRequest{Id: id.String(), Version: versionOf(options)}
	res, err := call[taskenginev1.DeleteTaskResponse](ctx, c, taskenginev1connect.TaskServiceDeleteTaskProcedure, req, false)
	if err != nil {
		return nil, err
	}
	return decodeTask(res.GetTask())
}

func orderMessage(o *BulkOrder) *taskenginev1.BulkOrder {
	m := &taskenginev1.BulkOrder{Verb: string(o.Verb), Where: o.Where, Types: o.Types, Reason: o.Reason, At: stamp(o.At), In: span(o.In), Job: o.Job}
	if o.Values != nil {
		m.Values = valuesMessage(o.Values)
	}
	return m
}

func valuesMessage(v *TaskValues) *taskenginev1.TaskValues {
	m := &taskenginev1.TaskValues{Headers: v.Headers, RemoveHeaders: v.RemoveHeaders}
	if v.Priority != nil {
		m.Priority = new(uint32(*v.Priority))
	}
	if v.Payload != nil {
		m.Payload = append([]byte{}, *v.Payload...) // an empty one is there, too
	}
	return m
}

// decodeBulkJob returns no job with an error.
func decodeBulkJob(m *taskenginev1.BulkJob, err error) (*BulkJob, error) {
	if err != nil {
		return nil, err
	}
	var d decoder
	j := d.bulkJob(m)
	if d.err != nil {
		return nil, d.err
	}
	return j, nil
}

func (d *decoder) bulkJob(m *taskenginev1.BulkJob) *BulkJob {
	return &BulkJob{
		Name: m.GetName(), Phase: BulkPhase(m.GetPhase()), Verb: BulkVerb(m.GetVerb()), Where: m.GetWhere(), Types: m.GetTypes(), Reason: m.GetReason(),
		At: timeOf(m.GetAt()), Rate: m.GetRate(), By: m.GetBy(), OrderedAt: timeOf(m.GetOrderedAt()), BegunAt: timeOf(m.GetBegunAt()), EndedAt: timeOf(m.GetEndedAt()),
		Total: m.GetTotal(), TotalComplete: m.GetTotalComplete(), Changed: m.GetChanged(), Skipped: m.GetSkipped(), Refused: m.GetRefused(), Unclear: m.GetUnclear(),
		Read: m.GetRead(), TaskID: d.id(m.GetTaskId()), Problem: m.GetProblem(), Undoes: m.GetUndoes(),
		Refusals: all(m.GetRefusals(), func(m *taskenginev1.BulkRefusal) BulkRefusal { return BulkRefusal{d.id(m.GetTaskId()), m.GetReason()} }),
		History: all(m.GetHistory(), func(m *taskenginev1.BulkEvent) BulkEvent {
			return BulkEvent{timeOf(m.GetAt()), m.GetBy(), m.GetWhat(), m.GetReason()}
		}),
	}
}

func (d *decoder) bulkPreview(m *taskenginev1.PreviewBulkJobResponse) *BulkPreview {
	return &BulkPreview{
		Where: m.GetWhere(), Tasks: m.GetTasks(), Complete: m.GetComplete(), Read: m.GetRead(), Total: m.GetTotal(), Index: m.GetIndex(),
		States: m.GetStates(), Left: m.GetLeft(), Samples: all(m.GetSamples(), d.task),
		Kinds: all(m.GetKinds(), func(m *taskenginev1.BulkKind) BulkKind {
			return BulkKind{m.GetKind(), m.GetPattern(), m.GetTasks(), d.id(m.GetSample()), m.GetError()}
		}),
	}
}
