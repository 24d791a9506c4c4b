package dashboard

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/taskengine/taskengine/internal/access"
	"github.com/taskengine/taskengine/internal/redact"
	"github.com/taskengine/taskengine/internal/terminal"
	"github.com/taskengine/taskengine/internal/units"
	taskenginev1 "github.com/taskengine/taskengine/server/proto/taskengine/v1"
)

// maxEdited is the most bytes of a payload that can be edited in a form.
const maxEdited = 24 << 10

func taskActions() []action {
	return []action{
		{"task/{id}/resume", func(v *view) (string, error) {
			_, err := v.api().Resume(v.ctx, &taskenginev1.ResumeRequest{Id: v.PathValue("id")})
			return v.changed("resume"), err
		}},
		{"task/{id}/cancel", func(v *view) (string, error) {
			_, err := v.api().Cancel(v.ctx, &taskenginev1.CancelRequest{Id: v.PathValue("id"), Reason: v.PostFormValue("reason"), Tree: v.PostFormValue("tree") != ""})
			return v.changed("cancel"), err
		}},
		{"task/{id}/fail", func(v *view) (string, error) {
			_, err := v.api().Fail(v.ctx, &taskenginev1.FailRequest{Id: v.PathValue("id"), Reason: v.PostFormValue("reason")})
			return v.changed("fail"), err
		}},
		{"task/{id}/delete", func(v *view) (string, error) {
			_, err := v.api().DeleteTask(v.ctx, &taskenginev1.DeleteTaskRequest{Id: v.PathValue("id")})
			return "tasks", err
		}},
		{"task/{id}/edit", saveEdit},
	}
}

// changed returns the path of a task that was changed.
func (v *view) changed(how string) string { return "task/" + v.PathValue("id") + "?done=" + how }

func editPage() page {
	return page{path: "task/{id}/edit", under: "Tasks", template: "edit", load: loadEdit}
}

// edit has the values of the form.
type edit struct {
	*taskenginev1.Task
	Payload  string
	Fixed    string // why the payload and the headers are not in the form
	Headers  string // one in a line
	MayAtAll bool
}

func loadEdit(v *view) (any, error) {
	t, err := v.editable(0)
	if err != nil {
		return nil, err
	}
	v.title = "Edit " + t.GetType() + " " + short(t.GetId())
	v.command = commandLine("task", "set", t.GetId(), "--priority", fmt.Sprint(t.GetPriority()))
	e := &edit{Task: t, Fixed: v.fixed(t), MayAtAll: v.mayDo(t).Edit}
	if e.Fixed == "" {
		e.Payload, e.Headers = string(t.GetPayload()), headerLines(t.GetHeaders())
	}
	return e, nil
}

// editable returns a task; version 0 is any.
func (v *view) editable(version uint64) (*taskenginev1.Task, error) {
	got, err := v.api().Get(v.ctx, &taskenginev1.GetRequest{Id: v.PathValue("id")})
	if err != nil {
		return nil, err
	}
	t := got.GetTask()
	if version != 0 && t.GetVersion() != version {
		return nil, connect.NewError(connect.CodeAborted, errors.New("the task has changed since the form was opened; open it again"))
	}
	return t, nil
}

// fixed returns why the content of a task cannot be edited in a form, "" if it can: the form would change what it does not show.
func (v *view) fixed(t *taskenginev1.Task) string {
	text := string(t.GetPayload())
	switch {
	case !v.may(access.Submit):
		return "Its content is not shown to this token."
	case !v.may(access.Reveal) && (strings.Contains(text, redact.Mark) || strings.Contains(headerLines(t.GetHeaders()), redact.Mark)):
		return "Values in its content are redacted for this token."
	case len(text) > maxEdited:
		return "Its payload is too large for a form; taskengine task set --data @FILE changes it."
	case terminal.Lines(strings.ReplaceAll(text, "\r\n", "\n")) != strings.ReplaceAll(text, "\r\n", "\n"):
		return "Its payload is no plain text; taskengine task set --data @FILE changes it."
	case terminal.Lines(headerLines(t.GetHeaders())) != headerLines(t.GetHeaders()):
		return "Its headers are no plain text; taskengine task set --header changes them."
	}
	return ""
}

func headerLines(all map[string]string) string {
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(all)) {
		fmt.Fprintf(&b, "%s: %s\n", name, all[name])
	}
	return b.String()
}

// saveEdit changes what differs from the task as it was when the form was opened.
func saveEdit(v *view) (string, error) {
	version, err := strconv.ParseUint(v.PostFormValue("version"), 10, 64)
	if err != nil || version == 0 {
		return "", invalid("the version of the task is missing")
	}
	t, err := v.editable(version)
	if err != nil {
		return "", err
	}
	req := &taskenginev1.SetTaskRequest{Id: t.GetId(), Version: version, Values: new(taskenginev1.TaskValues)}
	priority, err := strconv.ParseUint(v.PostFormValue("priority"), 10, 32)
	if err != nil {
		return "", invalid("the priority is a number from 0 (sooner) to 9 (later)")
	}
	if p := uint32(priority); p != t.GetPriority() {
		req.Values.Priority = &p
	}
	if in := strings.TrimSpace(v.PostFormValue("in")); in != "" {
		d, err := units.ParseDuration(in)
		if err != nil {
			return "", invalid("run it in: %w", err)
		}
		req.In = durationpb.New(d)
	}
	if v.fixed(t) == "" {
		if err := addContent(req.Values, t, v.PostFormValue("payload"), v.PostFormValue("headers")); err != nil {
			return "", err
		}
	}
	_, err = v.api().SetTask(v.ctx, req)
	return v.changed("edit"), err
}

// addContent adds the payload and the headers of a form that differ from those of the task. Forms have carriage returns before all newlines.
func addContent(to *taskenginev1.TaskValues, t *taskenginev1.Task, payload, headers string) error {
	plain := func(s string) string { return strings.ReplaceAll(s, "\r\n", "\n") }
	if payload = plain(payload); payload != plain(string(t.GetPayload())) {
		to.Payload = []byte(payload)
	}
	given := make(map[string]string)
	for line := range strings.Lines(plain(headers)) {
		line = strings.TrimSuffix(line, "\n")
		if strings.TrimSpace(line) == "" {
			continue
		}
		name, value, ok := strings.Cut(line, ":")
		if !ok || strings.TrimSpace(name) == "" {
			return invalid("the header %.80q is not of the form NAME: VALUE", line)
		}
		given[strings.TrimSpace(name)] = strings.TrimPrefix(value, " ")
	}
	for name, value := range given {
		if was, ok := t.GetHeaders()[name]; !ok || was != value {
			if to.Headers == nil {
				to.Headers = make(map[string]string)
			}
			to.Headers[name] = value
		}
	}
	for _, name := range slices.Sorted(maps.Keys(t.GetHeaders())) {
		if _, ok := given[name]; !ok {
			to.RemoveHeaders = append(to.RemoveHeaders, name)
		}
	}
	return nil
}

// invalid returns the error of a form that says what cannot be.
func invalid(format string, args ...any) error {
	return connect.NewError(connect.CodeInvalidArgument, fmt.Errorf(format, args...))
}
