package server_test

import (
	"fmt"
	"strings"
	"testing"

	"connectrpc.com/connect"
	"github.com/google/go-cmp/cmp"

	taskenginev1 "github.com/taskengine/taskengine/server/proto/taskengine/v1"
)

func TestAReceiptSaysWhatItsRequestDid(t *testing.T) {
	n := newNode(t)
	client := n.client(t)
	ask := func(types ...string) (got []string, err error) {
		req := new(taskenginev1.SubmitRequest)
		for _, typ := range types {
			req.Tasks = append(req.Tasks, &taskenginev1.NewTask{Type: typ, Key: "k"})
		}
		res, err := client.Submit(t.Context(), req)
		for _, r := range res.GetReceipts() {
			got = append(got, fmt.Sprint(r.GetOutcome(), " ", r.GetCreated()))
		}
		return got, err
	}
	for _, want := range [][]string{
		{"created true", "created true", "created true"},
		{"existing false", "rejected false", "replaced false"},
	} {
		got, err := ask("idle", "strict", "latest")
		if diff := cmp.Diff(want, got); err != nil || diff != "" {
			t.Errorf("%v (-want +got)\n%s", err, diff)
		}
	}
	if got, err := ask("strict"); connect.CodeOf(err) != connect.CodeAlreadyExists || !strings.Contains(err.Error(), `has the key "k"`) {
		t.Errorf("got %v, %v", got, err)
	}
}

func TestATaskIsFoundByItsKey(t *testing.T) {
	n := newNode(t)
	client := n.client(t)
	id := func(task *taskenginev1.NewTask) string {
		res, err := client.Submit(t.Context(), &taskenginev1.SubmitRequest{Tasks: []*taskenginev1.NewTask{task}})
		if err != nil {
			t.Fatal(err)
		}
		return res.GetReceipts()[0].GetId()
	}
	plain := id(&taskenginev1.NewTask{Type: "idle", Key: "k"})
	within := id(&taskenginev1.NewTask{Type: "idle", Key: "k", OrderingKey: "o"})
	other := id(&taskenginev1.NewTask{Type: "strict", Key: "k"})
	id(&taskenginev1.NewTask{Type: "idle", Key: "l"})
	for _, c := range []struct {
		req  *taskenginev1.GetRequest
		id   string
		code connect.Code
		text string
	}{
		{&taskenginev1.GetRequest{Type: "idle", Key: "k"}, plain, 0, ""},
		{&taskenginev1.GetRequest{Type: "idle", Key: "k", OrderingKey: "o"}, within, 0, ""},
		{&taskenginev1.GetRequest{Type: "strict", Key: "k"}, other, 0, ""},
		{&taskenginev1.GetRequest{Type: "strict", Key: "l"}, "", connect.CodeNotFound, `no task of type strict has the key "l"`},
		{&taskenginev1.GetRequest{Key: "k"}, "", connect.CodeInvalidArgument, "type and key go together"},
		{&taskenginev1.GetRequest{Id: plain, Type: "idle", Key: "k"}, "", connect.CodeInvalidArgument, "exclude each other"},
		{&taskenginev1.GetRequest{}, "", connect.CodeInvalidArgument, "id is missing"},
	} {
		res, err := client.Get(t.Context(), c.req)
		if res.GetTask().GetId() != c.id || c.code != 0 && (connect.CodeOf(err) != c.code || !strings.Contains(err.Error(), c.text)) {
			t.Errorf("%v: %v, %v", c.req, res, err)
		}
	}
	for _, c := range []struct {
		req  *taskenginev1.ListRequest
		want []string
	}{
		{&taskenginev1.ListRequest{Key: "k"}, []string{other, within, plain}},
		{&taskenginev1.ListRequest{Key: "k", Types: []string{"idle"}}, []string{within, plain}},
		{&taskenginev1.ListRequest{Key: "k", States: []string{"done"}}, nil},
	} {
		res, err := client.List(t.Context(), c.req)
		var got []string
		for _, task := range res.GetTasks() {
			got = append(got, task.GetId())
		}
		if diff := cmp.Diff(c.want, got); err != nil || diff != "" {
			t.Errorf("%v: %v (-want +got)\n%s", c.req, err, diff)
		}
	}
}
