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
