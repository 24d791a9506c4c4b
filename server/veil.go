package server

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/taskengine/taskengine/engine"
	"github.com/taskengine/taskengine/filter"
	"github.com/taskengine/taskengine/internal/access"
	"github.com/taskengine/taskengine/internal/redact"
	taskenginev1 "github.com/taskengine/taskengine/server/proto/taskengine/v1"
	"github.com/taskengine/taskengine/task"
)

// Redaction has the places of tasks that only callers with the role reveal see, by the types of the tasks.
type Redaction map[string]redact.Rules

// veil hides from a caller the content of tasks that it may not see, in every response: that of all tasks if the caller has
// only roles that show none, and else redacted values.
type veil struct {
	api     *API
	ctx     context.Context
	content bool // the caller sees content, but for redacted values
	redacts Redaction
}

// veilOf returns the veil of the caller of a request; nil if it may see everything.
func (a *API) veilOf(ctx context.Context) *veil {
	c := callerOf(ctx)
	if c == nil {
		return nil
	}
	redacts := *a.redaction.Load()
	t, err := a.valid(c)
	switch {
	case err != nil: // it is not valid any more
		return &veil{a, ctx, false, redacts}
	case t.May(access.Submit) && (t.May(access.Reveal) || len(redacts) == 0):
		return nil
	}
	return &veil{a, ctx, t.May(access.Submit), redacts}
}

// veiled hides what the caller may not see in a response.
func (a *API) veiled(ctx context.Context, res any) {
	if m, ok := res.(proto.Message); ok && m.ProtoReflect().IsValid() {
		if v := a.veilOf(ctx); v != nil {
			v.message(m.ProtoReflect())
		}
	}
}

// message hides what a message has, and the messages in it.
func (v *veil) message(m protoreflect.Message) {
	switch m := m.Interface().(type) {
	case *taskenginev1.Task:
		v.task(m)
		return
	case *taskenginev1.WhyResponse:
		v.why(m)
		return
	case *taskenginev1.Workflow:
		v.workflow(m)
	case *taskenginev1.Document:
		if !v.content || len(v.redacts) > 0 { // it has content of tasks of any type
			m.Data = mark(m.GetData())
		}
	case *taskenginev1.WorkflowStep:
		m.Error = v.pattern(m.GetError(), m.GetType())
	case *taskenginev1.Schedule:
		m.Error = v.pattern(m.GetError(), m.GetDefinition().GetTask().GetType())
	case *taskenginev1.ScheduleTask:
		v.scheduled(m)
	case *taskenginev1.ErrorKind:
		v.errorKind(m)
	case *taskenginev1.BulkKind:
		v.bulkKind(m)
	case *taskenginev1.BulkJob:
		where, err := filter.Parse(m.GetWhere(), v.api.engine.Now())
		if err == nil {
			err = v.api.permitWhere(v.ctx, where.And(filter.Of(nil, m.GetTypes(), "")))
		}
		if err != nil {
			m.Where = redact.Mark
		}
	case *taskenginev1.Alert:
		if m.Detail = v.pattern(m.GetDetail()); m.GetDetail() != "" && len(v.redacts) > 0 { // it may quote any task
			m.Detail = redact.Mark
		}
	case *taskenginev1.UnsentAlerts:
		m.Summary = v.pattern(m.GetSummary())
	}
	m.Range(func(f protoreflect.FieldDescriptor, value protoreflect.Value) bool {
		switch {
		case f.Message() == nil || f.IsMap():
		case f.IsList():
			for i := range value.List().Len() {
				v.message(value.List().Get(i).Message())
			}
		default:
			v.message(value.Message())
		}
		return true
	})
}

// pattern returns a text about tasks of these types, or of any if none is given, without the values in it, if it may have some
// that the caller may not see.
func (v *veil) pattern(text string, types ...string) string {
	if v.content && len(types) > 0 && !slices.ContainsFunc(types, func(typ string) bool { return len(v.rules(typ)) > 0 }) {
		return text
	}
	return task.ErrorPattern(text)
}

// rules returns what is redacted of tasks of a type. Those that belong to the engine have in them the content of tasks of other types.
func (v *veil) rules(typ string) redact.Rules {
	if (typ == "" || task.IsReservedType(typ) || strings.HasPrefix(typ, "taskengine.")) && len(v.redacts) > 0 {
		return redact.Rules{{Of: "payload"}, {Of: "result"}, {Of: "checkpoint"}}
	}
	return v.redacts[typ]
}

// task hides what a task has.
func (v *veil) task(m *taskenginev1.Task) {
	rules := v.rules(m.GetType())
	switch {
	case !v.content:
		for _, content := range []*[]byte{&m.Payload, &m.Result, &m.Checkpoint} {
			*content = mark(*content)
		}
		m.Headers = marks(m.GetHeaders())
		for _, s := range append(slices.Clone(m.GetKeptSignals()), m.GetWokenSignal()) {
			if s != nil {
				s.Data = mark(s.GetData())
			}
		}
		hide := func(text string) string { return text }
		if len(rules) > 0 {
			hide = v.hidden(m)
		}
		v.texts(m, func(text string) string { return task.ErrorPattern(hide(text)) })
		if p := m.GetProgress(); p.GetMessage() != "" {
			p.Message = redact.Mark
		}
	case len(rules) > 0:
		hide := v.hidden(m)
		m.Payload = rules.Document("payload", m.GetPayload(), new(redact.Values))
		m.Result = rules.Document("result", m.GetResult(), new(redact.Values))
		m.Checkpoint = rules.Document("checkpoint", m.GetCheckpoint(), new(redact.Values))
		m.Headers = rules.Headers(m.GetHeaders(), new(redact.Values))
		for _, s := range append(slices.Clone(m.GetKeptSignals()), m.GetWokenSignal()) {
			if s != nil {
				s.Data = []byte(hide(string(s.GetData())))
			}
		}
		v.texts(m, hide)
		if p := m.GetProgress(); p != nil {
			p.Message = hide(p.GetMessage())
		}
	}
}

// texts changes the errors of a task.
func (v *veil) texts(m *taskenginev1.Task, change func(string) string) {
	m.Error = change(m.GetError())
	for _, a := range m.GetHistory() {
		if a.GetOutcome() == task.Edited.String() { // it has old content
			a.Error = redact.Mark
			continue
		}
		a.Error = change(a.GetError())
	}
}

// errorKind hides what the error of a task has.
func (v *veil) errorKind(m *taskenginev1.ErrorKind) {
	if slices.ContainsFunc(m.GetTypes(), func(typ string) bool { return len(v.rules(typ)) > 0 }) {
		m.Error, m.Pattern = v.kind(m.GetSample(), m.GetError())
	} else if !v.content {
		m.Error = m.GetPattern()
	}
}

// bulkKind hides what the error of a task of a job has.
func (v *veil) bulkKind(m *taskenginev1.BulkKind) {
	m.Error, m.Pattern = v.kind(m.GetSample(), m.GetError())
}

// kind returns the error of a task, by its id, and the pattern of that.
func (v *veil) kind(sample, text string) (shown, pattern string) {
	if id, err := task.ParseID(sample); err == nil && len(v.redacts) > 0 {
		text = v.hiddenOf(id)(text)
	}
	if pattern = task.ErrorPattern(text); !v.content {
		return pattern, pattern
	}
	return text, pattern
}

// hidden returns a function that removes the redacted values of a task from a text.
func (v *veil) hidden(m *taskenginev1.Task) func(string) string {
	hasText := m.GetError() != "" || m.GetProgress().GetMessage() != "" || m.GetWokenSignal() != nil || len(m.GetKeptSignals()) > 0
	for _, a := range m.GetHistory() {
		hasText = hasText || a.GetError() != ""
	}
	id, err := task.ParseID(m.GetId())
	if !hasText || err != nil {
		return task.ErrorPattern
	}
	return v.hiddenOf(id)
}

// hiddenOf is hidden by the id of the task. If the task cannot be read, its values are not known, and texts become patterns.
func (v *veil) hiddenOf(id task.ID) func(string) string {
	t, err := v.api.engine.Get(v.ctx, id)
	if err != nil {
		return task.ErrorPattern
	}
	rules, values := v.rules(t.Type), new(redact.Values)
	rules.Document("payload", t.Payload, values)
	rules.Document("result", t.Result, values)
	rules.Document("checkpoint", t.Checkpoint(), values)
	rules.Headers(t.Headers, values)
	return values.Text
}

// why hides what a task and the reasons why it does not run have: these quote its error, and that of the task before it.
func (v *veil) why(m *taskenginev1.WhyResponse) {
	before := m.GetTask().GetError()
	for _, w := range m.GetWaits() {
		w.Text, _, _ = strings.Cut(w.GetText(), ", after: ")
	}
	v.task(m.GetTask())
	for _, r := range m.GetReasons() {
		if r.GetHead() != "" {
			r.Text, _, _ = strings.Cut(r.GetText(), ", after: ")
			if r.GetHeadState() == task.Error.String() {
				if at := strings.Index(r.GetText(), r.GetHead()+": "); at >= 0 {
					r.Text = r.GetText()[:at+len(r.GetHead())]
				}
			}
		}
		if before != "" {
			r.Text = strings.ReplaceAll(r.GetText(), before, m.GetTask().GetError())
		}
	}
}

// workflow hides the output of a workflow, which has results of its steps.
func (v *veil) workflow(m *taskenginev1.Workflow) {
	if m.GetOutput() != "" && (!v.content || len(v.redacts) > 0) {
		m.Output = `"` + redact.Mark + `"`
	}
}

// scheduled hides what the tasks of a schedule have.
func (v *veil) scheduled(m *taskenginev1.ScheduleTask) {
	switch rules := v.rules(m.GetType()); {
	case !v.content:
		m.Payload, m.Headers = string(mark([]byte(m.GetPayload()))), marks(m.GetHeaders())
	default:
		m.Payload = string(rules.Document("payload", []byte(m.GetPayload()), new(redact.Values)))
		m.Headers = rules.Headers(m.GetHeaders(), new(redact.Values))
	}
}

// mark returns the mark in place of a content.
func mark(content []byte) []byte {
	if len(content) == 0 {
		return content
	}
	return []byte(`"` + redact.Mark + `"`)
}

// marks returns headers with marks in place of their values.
func marks(headers map[string]string) map[string]string {
	hidden := maps.Clone(headers)
	for name := range hidden {
		hidden[name] = redact.Mark
	}
	return hidden
}

// permitWhere returns an error if a filter reads what the caller may not see: by the tasks that it selects, the caller would learn
// the values.
func (a *API) permitWhere(ctx context.Context, where filter.Filter) error {
	v := a.veilOf(ctx)
	if v == nil {
		return nil
	}
	bounds, _ := where.Bounds()
	for _, place := range where.Places() {
		of := place.Field
		if of == "header" {
			of = "headers"
		}
		name := strings.Join(append([]string{place.Field}, place.Path...), ".")
		switch {
		case of != "payload" && of != "result" && of != "checkpoint" && of != "headers" && of != "error":
		case !v.content:
			return denied("a filter by %s would show content of tasks, which needs the role %s; use error.kind for errors", name, access.Submit)
		default:
			if typ, ok := v.covered(bounds.Types, of, place.Path); ok {
				return denied("a filter by %s would show redacted values of the type %s, which needs the role %s; use error.kind for errors, and name other types", name, typ, access.Reveal)
			}
		}
	}
	return nil
}

// covered returns one of these types, or of all if there are none, of which a place has redacted values. The text of an error may have
// every value.
func (v *veil) covered(types []string, of string, path []string) (string, bool) {
	if len(types) == 0 {
		types = slices.Sorted(maps.Keys(v.redacts))
	}
	for _, typ := range types {
		if rules := v.rules(typ); rules.Covers(of, path) || of == "error" && len(rules) > 0 {
			return typ, true
		}
	}
	return "", false
}

// veiledLines returns send for the log lines of a task, without redacted values. isGone says that the task is not in the store.
func (a *API) veiledLines(ctx context.Context, id task.ID, isGone bool, send func(*taskenginev1.TaskLogsResponse) error) (func(*taskenginev1.TaskLogsResponse) error, error) {
	v := a.veilOf(ctx)
	if v == nil {
		return send, nil
	}
	if isGone {
		return nil, denied("the task is not there any more, so that it is not known which values of its log are redacted: its lines need the role %s", access.Reveal)
	}
	t, err := a.engine.Get(ctx, id)
	switch {
	case err != nil && !errors.Is(err, engine.ErrUnreadable):
		return nil, err
	case len(v.rules(t.Type)) == 0:
		return send, nil
	}
	return func(res *taskenginev1.TaskLogsResponse) error {
		hide := v.hiddenOf(id)
		for _, line := range res.GetLines() {
			line.Message, line.Attrs = hide(line.GetMessage()), hide(line.GetAttrs())
		}
		return send(res)
	}, nil
}

func denied(format string, args ...any) error {
	return connect.NewError(connect.CodePermissionDenied, fmt.Errorf(format, args...))
}

// veiler hides what callers of the handler of package connect may not see.
type veiler struct{ api *API }

// WrapUnary implements [connect.Interceptor].
func (w veiler) WrapUnary(next connect.UnaryFunc) connect.UnaryFunc {
	return func(ctx context.Context, req connect.AnyRequest) (connect.AnyResponse, error) {
		res, err := next(ctx, req)
		if err == nil {
			w.api.veiled(ctx, res.Any())
		}
		return res, err
	}
}

// WrapStreamingHandler implements [connect.Interceptor]. What streams send passes through rechecked.
func (veiler) WrapStreamingHandler(next connect.StreamingHandlerFunc) connect.StreamingHandlerFunc {
	return next
}

// WrapStreamingClient implements [connect.Interceptor]. The server is no client.
func (veiler) WrapStreamingClient(next connect.StreamingClientFunc) connect.StreamingClientFunc {
	return next
}
