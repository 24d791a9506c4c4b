package server_test

import (
	"slices"
	"strings"
	"testing"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/taskengine/taskengine/internal/access"
	"github.com/taskengine/taskengine/internal/redact"
	"github.com/taskengine/taskengine/server"
	taskenginev1 "github.com/taskengine/taskengine/server/proto/taskengine/v1"
	"github.com/taskengine/taskengine/server/proto/taskengine/v1/taskenginev1connect"
)

// secrets are in every content of the task of a veiled node.
const (
	card   = "tell-4111"
	bearer = "tell-bearer"
)

// newVeiled returns a node with tokens of several roles, and a task of the type idle with a secret in each of its contents, which a
// person has failed with an error that quotes them.
func newVeiled(t *testing.T) (*guarded, string) {
	t.Helper()
	g := newGuarded(
		t, of("view", access.View), of("submit", access.Submit), of("manage", access.Manage), of("operate", access.Operate), of("admin", access.Admin),
		access.Token{Name: "audit", Roles: []access.Role{access.View, access.Reveal}}, access.Token{Name: "trusted", Roles: []access.Role{access.Submit, access.Reveal}},
	)
	rules, err := redact.ParseAll([]string{"payload.card.number", "headers.authorization"})
	if err != nil {
		t.Fatal(err)
	}
	g.api = server.NewAPI(server.APIConfig{Engine: g.engine, TaskLog: g.log, Tokens: g.tokens.Load, Redaction: server.Redaction{"idle": rules}})
	g.tcp = listenBoth(t, g.api)
	t.Cleanup(g.api.Drain)
	id := g.submit(t, &taskenginev1.NewTask{
		Type: "idle", Key: "k", OrderingKey: "o", Headers: map[string]string{"Authorization": bearer, "tenant": "t7"},
		Input: &taskenginev1.NewTask_Text{Text: `{"card":{"number":"` + card + `"},"customer":{"id":17,"name":"open-name"}}`},
	})
	if _, err := g.client(t).Fail(t.Context(), &taskenginev1.FailRequest{Id: id, Reason: "card " + card + " with " + bearer + " of 17 was refused"}); err != nil {
		t.Fatal(err)
	}
	return g, id
}

// readers are requests whose responses have something of the task.
func readers(c taskenginev1connect.TaskServiceClient, t *testing.T, id string) map[string]func() (proto.Message, error) {
	ctx := t.Context()
	return map[string]func() (proto.Message, error){
		"Get": func() (proto.Message, error) { return c.Get(ctx, &taskenginev1.GetRequest{Id: id}) },
		"key": func() (proto.Message, error) {
			return c.Get(ctx, &taskenginev1.GetRequest{Type: "idle", OrderingKey: "o", Key: "k"})
		},
		"List":  func() (proto.Message, error) { return c.List(ctx, &taskenginev1.ListRequest{}) },
		"where": func() (proto.Message, error) { return c.List(ctx, &taskenginev1.ListRequest{Where: "state=failed"}) },
		"errors": func() (proto.Message, error) {
			return c.ListErrors(ctx, &taskenginev1.ListErrorsRequest{Where: "state=failed"})
		},
		"Wait": func() (proto.Message, error) { return c.Wait(ctx, &taskenginev1.WaitRequest{Ids: []string{id}}) },
		"Why":  func() (proto.Message, error) { return c.Why(ctx, &taskenginev1.WhyRequest{Id: id}) },
		"Tree": func() (proto.Message, error) { return c.Tree(ctx, &taskenginev1.TreeRequest{Id: id}) },
	}
}

// texts returns a message with its bytes as text.
func texts(t *testing.T, m proto.Message) string {
	t.Helper()
	out, err := protojson.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	text := string(out)
	var walk func(protoreflect.Message)
	walk = func(m protoreflect.Message) {
		m.Range(func(f protoreflect.FieldDescriptor, v protoreflect.Value) bool {
			switch {
			case f.Kind() == protoreflect.BytesKind && !f.IsList():
				text += " " + string(v.Bytes())
			case f.Message() != nil && !f.IsMap() && f.IsList():
				for i := range v.List().Len() {
					walk(v.List().Get(i).Message())
				}
			case f.Message() != nil && !f.IsMap():
				walk(v.Message())
			}
			return true
		})
	}
	walk(m.ProtoReflect())
	return text
}

func TestATokenShowsContentAndRedactedValuesByItsRoles(t *testing.T) {
	g, id := newVeiled(t)
	for _, token := range []string{"view", "manage", "audit", "submit", "operate", "trusted", "admin"} {
		content, all := slices.Contains([]string{"submit", "operate", "trusted", "admin"}, token), token == "trusted" || token == "admin"
		for name, read := range readers(g.as(t, token), t, id) {
			m, err := read()
			if err != nil {
				t.Errorf("%s by %s: %v", name, token, err)
				continue
			}
			text := texts(t, m)
			if has := strings.Contains(text, card); has != all {
				t.Errorf("%s by %s shows a redacted value: %t: %s", name, token, has, text)
			}
			if has := strings.Contains(text, bearer); has && !all {
				t.Errorf("%s by %s shows a redacted header: %s", name, token, text)
			}
			if has := strings.Contains(text, "open-name") || strings.Contains(text, "t7"); has && !content {
				t.Errorf("%s by %s shows content: %s", name, token, text)
			}
			if name == "Get" && strings.Contains(text, "open-name") != content {
				t.Errorf("%s by %s: %s", name, token, text)
			}
			if !strings.Contains(text, "was refused") {
				t.Errorf("%s by %s has no error: %s", name, token, text)
			}
		}
	}
}

// A filter is no way to learn what a response does not have.
func TestAFilterByWhatATokenDoesNotShowIsRefused(t *testing.T) {
	g, _ := newVeiled(t)
	for where, denied := range map[string][]string{
		"state=failed":                       nil,
		"error.kind=1234":                    nil,
		"payload.customer.id=17":             {"view", "manage", "audit"},
		"header.tenant=t7":                   {"view", "manage", "audit"},
		"result.x=1":                         {"view", "manage", "audit"},
		"payload.card.number=" + card:        {"view", "manage", "audit", "submit", "operate"},
		"type=idle payload.card~4":           {"view", "manage", "audit", "submit", "operate"},
		"type=id* payload.card.number!=1":    {"view", "manage", "audit", "submit", "operate"},
		"header.AUTHORIZATION~" + bearer[:6]: {"view", "manage", "audit", "submit", "operate"},
		`error~"4111"`:                       {"view", "manage", "audit", "submit", "operate"},
		`type=echo error~"4111"`:             {"view", "manage", "audit"},
		"type=echo payload.card.number=1":    {"view", "manage", "audit"},
	} {
		for _, token := range []string{"view", "manage", "audit", "submit", "operate", "trusted", "admin"} {
			c := g.as(t, token)
			_, err := c.List(t.Context(), &taskenginev1.ListRequest{Where: where})
			if got := connect.CodeOf(err) == connect.CodePermissionDenied; got != slices.Contains(denied, token) || err != nil && !got {
				t.Errorf("%s by %s: %v", where, token, err)
			}
			_, err = c.Count(t.Context(), &taskenginev1.CountRequest{Where: where})
			if got := connect.CodeOf(err) == connect.CodePermissionDenied; got != slices.Contains(denied, token) || err != nil && !got {
				t.Errorf("counted with %s by %s: %v", where, token, err)
			}
			if strings.Contains(where, "payload") || strings.Contains(where, "result") {
				continue // kinds of errors are not selected by them
			}
			_, err = c.ListErrors(t.Context(), &taskenginev1.ListErrorsRequest{Where: where})
			if got := connect.CodeOf(err) == connect.CodePermissionDenied; got != slices.Contains(denied, token) || err != nil && !got {
				t.Errorf("errors with %s by %s: %v", where, token, err)
			}
		}
	}
}

func TestAnAnswerToAChangeAndAScheduleShowNoMoreThanARead(t *testing.T) {
	g, id := newVeiled(t)
	res, err := g.as(t, "manage").Resume(t.Context(), &taskenginev1.ResumeRequest{Id: id})
	if text := texts(t, res); err != nil || strings.Contains(text, card) || strings.Contains(text, "t7") {
		t.Errorf("resumed: %s, %v", text, err)
	}
	_, err = g.as(t, "admin").ApplySchedule(t.Context(), &taskenginev1.ApplyScheduleRequest{Name: "s", Definition: &taskenginev1.ScheduleDefinition{
		Every: durationpb.New(3600e9), Task: &taskenginev1.ScheduleTask{Type: "idle", Payload: `{"card":{"number":"` + card + `"},"other":"open-name"}`, Headers: map[string]string{"authorization": bearer}},
	}})
	if err != nil {
		t.Fatal(err)
	}
	for token, want := range map[string][2]bool{"view": {false, false}, "submit": {true, false}, "admin": {true, true}} {
		res, err := g.as(t, token).GetSchedule(t.Context(), &taskenginev1.GetScheduleRequest{Name: "s"})
		if err != nil {
			t.Fatal(err)
		}
		text := texts(t, res)
		if strings.Contains(text, "open-name") != want[0] || strings.Contains(text, card) != want[1] || strings.Contains(text, bearer) != want[1] {
			t.Errorf("by %s: %s", token, text)
		}
		task, err := g.as(t, token).Get(t.Context(), &taskenginev1.GetRequest{Id: res.GetSchedule().GetTaskId()})
		if err != nil {
			t.Fatal(err)
		}
		if text := texts(t, task); strings.Contains(text, card) != want[1] || strings.Contains(text, bearer) != want[1] {
			t.Errorf("the task of the schedule by %s: %s", token, text)
		}
	}
}

// A field that a later version adds to a response may have content: then package server has to hide it.
func TestEveryMessageWithContentIsKnown(t *testing.T) {
	known := map[string]bool{
		"Task.payload": true, "Task.result": true, "Task.checkpoint": true, "ReceivedSignal.data": true, "Document.data": true,
	}
	seen := make(map[protoreflect.FullName]bool)
	var walk func(protoreflect.MessageDescriptor)
	walk = func(m protoreflect.MessageDescriptor) {
		if seen[m.FullName()] {
			return
		}
		seen[m.FullName()] = true
		for i := range m.Fields().Len() {
			f := m.Fields().Get(i)
			if f.Message() != nil && !f.IsMap() {
				walk(f.Message())
			}
			if name := string(m.Name()) + "." + string(f.Name()); f.Kind() == protoreflect.BytesKind && !known[name] {
				t.Errorf("a response may have %s, and nothing hides it from tokens that do not show content", name)
			}
		}
	}
	for _, m := range descriptors() {
		walk(m.Output())
	}
}

func TestTheLogOfATaskHasNoRedactedValues(t *testing.T) {
	g := newGuarded(t, of("view", access.View), of("submit", access.Submit), of("admin", access.Admin))
	rules, err := redact.ParseAll([]string{"payload.word"})
	if err != nil {
		t.Fatal(err)
	}
	g.api = server.NewAPI(server.APIConfig{Engine: g.engine, TaskLog: g.log, Tokens: g.tokens.Load, Redaction: server.Redaction{"hold": rules}})
	g.tcp = listenBoth(t, g.api)
	t.Cleanup(g.api.Drain)
	id := g.submit(t, &taskenginev1.NewTask{Type: "hold", Input: &taskenginev1.NewTask_Text{Text: `{"word":"held"}`}})
	g.release <- struct{}{}
	if _, err := g.client(t).Wait(t.Context(), &taskenginev1.WaitRequest{Ids: []string{id}}); err != nil {
		t.Fatal(err)
	}
	for token, want := range map[string]string{"submit": redact.Mark, "admin": "held"} {
		stream, err := g.as(t, token).TaskLogs(t.Context(), &taskenginev1.TaskLogsRequest{Id: id})
		if err != nil {
			t.Fatal(err)
		}
		if !stream.Receive() || len(stream.Msg().GetLines()) == 0 || stream.Msg().GetLines()[0].GetMessage() != want {
			t.Errorf("by %s: %v, %v", token, stream.Msg(), stream.Err())
		}
		_ = stream.Close()
	}
	stream, err := g.as(t, "view").TaskLogs(t.Context(), &taskenginev1.TaskLogsRequest{Id: id})
	if err != nil {
		t.Fatal(err)
	}
	if stream.Receive() || connect.CodeOf(stream.Err()) != connect.CodePermissionDenied {
		t.Errorf("a token without content reads %v, %v", stream.Msg(), stream.Err())
	}
	_ = stream.Close()
}
