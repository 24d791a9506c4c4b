package server_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/taskengine/taskengine/coord/local"
	taskenginev1 "github.com/taskengine/taskengine/server/proto/taskengine/v1"
)

func TestAFilterSelectsTheTasksOfAList(t *testing.T) {
	n := newNode(t)
	c := n.client(t)
	var ids []string
	for i := range 20 {
		ids = append(ids, n.submit(t, &taskenginev1.NewTask{
			Type: []string{"idle", "other"}[i%2], Headers: map[string]string{"tenant": fmt.Sprint(i % 3)},
			Input: &taskenginev1.NewTask_Text{Text: fmt.Sprintf(`{"order": {"number": %d}}`, i)},
		}))
	}
	for where, want := range map[string][]int{
		"type=oth* header.tenant=1":                 {1, 7, 13, 19},
		"payload.order.number>=17":                  {17, 18, 19},
		"type=idle payload.order.number>=17":        {18},
		"id=" + ids[3]:                              {3},
		"id=" + ids[3] + " payload.order.number=3":  {3},
		"id=" + ids[3] + " type=idle":               {},
		"state=error":                               {},
		"state=error state=done":                    {},
		"state!=done age<1h payload.order.number=5": {5},
	} {
		for _, limit := range []uint32{0, 1, 2} {
			var got []string
			req := &taskenginev1.ListRequest{Where: where, Limit: limit}
			for more := true; more; more = req.PageToken != "" {
				res, err := c.List(t.Context(), req)
				if err != nil {
					t.Fatalf("%s: %v", where, err)
				}
				for _, one := range res.GetTasks() {
					if len(one.GetPayload()) > 0 {
						t.Errorf("%s: the list has a payload", where)
					}
					got = append(got, one.GetId())
				}
				if res.GetRead() < int64(len(res.GetTasks())) || strings.Contains(res.GetWhere(), "age") {
					t.Errorf("%s: %d tasks were read, the filter is %s", where, res.GetRead(), res.GetWhere())
				}
				req.PageToken, req.Where = res.GetNextPageToken(), res.GetWhere()
			}
			var all []string
			for _, i := range want {
				all = append(all, ids[i])
			}
			slices.Reverse(all)
			if !slices.Equal(got, all) {
				t.Errorf("%s, %d at a time: got %v, not %v", where, limit, got, all)
			}
		}
	}
	for where, want := range map[string]struct {
		n     int64
		read  bool
		index string
	}{
		"type=oth* header.tenant=1":       {4, true, ""},
		"payload.order.number>=17":        {3, true, ""},
		"id=" + ids[3]:                    {1, true, "id"},
		"key=none":                        {0, false, ""},
		"type=other":                      {10, true, ""},
		"state=submitted,done,processing": {20, true, ""},
		"state=submitted,processing":      {20, true, "state"},
		"state=error error.kind=3f2a":     {0, false, "error.kind"},
		"state=error state=done":          {0, false, ""},
	} {
		res, err := c.Count(t.Context(), &taskenginev1.CountRequest{Where: where})
		if err != nil {
			t.Fatalf("%s: %v", where, err)
		}
		var n int64
		for _, of := range res.GetCounts() {
			n += of.GetCount()
		}
		if res.GetTotal() != 0 {
			t.Errorf("%s: the store counted %d tasks", where, res.GetTotal())
		}
		if n != want.n || res.GetPartial() || where != "key=none" && (res.GetRead() > 0) != want.read || want.index != "" && res.GetIndex() != want.index {
			t.Errorf("%s: counted %v", where, res)
		}
	}
	some, err := c.List(t.Context(), &taskenginev1.ListRequest{Where: "payload.order.number<4", Types: []string{"other"}, States: []string{"submitted", "done"}})
	if err != nil || len(some.GetTasks()) != 2 {
		t.Errorf("with a type of the request: %d tasks, %v", len(some.GetTasks()), err)
	}
	_, err = c.List(t.Context(), &taskenginev1.ListRequest{Where: "stat=error"})
	if connect.CodeOf(err) != connect.CodeInvalidArgument || !strings.Contains(err.Error(), "where: column 1: there is no field stat: did you mean state?") {
		t.Errorf("a mistake is answered by %v", err)
	}
}

func TestKindsOfErrorsAreListed(t *testing.T) {
	n := newNode(t)
	c := n.client(t)
	id := n.submit(t, &taskenginev1.NewTask{Type: "idle", ExpiresAt: timestamppb.New(time.Now().Add(time.Millisecond))})
	if _, err := c.Wait(t.Context(), &taskenginev1.WaitRequest{Ids: []string{id}}); err != nil {
		t.Fatal(err)
	}
	res, err := c.ListErrors(t.Context(), &taskenginev1.ListErrorsRequest{Where: "since=1h", Types: []string{"idle"}})
	if err != nil || len(res.GetKinds()) != 1 || res.GetTasks() != 1 || !res.GetComplete() {
		t.Fatalf("got %v, %v", res, err)
	}
	kind := res.GetKinds()[0]
	if kind.GetSample() != id || kind.GetError() == "" || kind.GetFirst() == nil || !slices.Equal(kind.GetTypes(), []string{"idle"}) {
		t.Errorf("got %v", kind)
	}
	list, err := c.List(t.Context(), &taskenginev1.ListRequest{Where: "error.kind=" + kind.GetKind()})
	if err != nil || len(list.GetTasks()) != 1 {
		t.Errorf("the tasks of the kind are %v, %v", list, err)
	}
	for _, wrong := range []*taskenginev1.ListErrorsRequest{{Where: "payload.a=1"}, {Where: "x"}, {Limit: 1001}} {
		if _, err := c.ListErrors(t.Context(), wrong); connect.CodeOf(err) != connect.CodeInvalidArgument {
			t.Errorf("%v is answered by %v", wrong, err)
		}
	}
}

func TestAFilterGoesByTheClockOfTheCluster(t *testing.T) {
	n := newMember(t, clocked{local.New(), 10 * time.Hour})
	n.submit(t, &taskenginev1.NewTask{Type: "idle"})
	for where, want := range map[string]int{"age<1h": 1, "since=1h": 1, "age>1h": 0} {
		res, err := n.client(t).List(t.Context(), &taskenginev1.ListRequest{Where: where})
		if err != nil || len(res.GetTasks()) != want {
			t.Errorf("%s selects %d tasks, %v, not %d", where, len(res.GetTasks()), err, want)
		}
	}
}
