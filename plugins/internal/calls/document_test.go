package calls

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"

	"github.com/taskengine/taskengine/plugins/internal/wire"
	"github.com/taskengine/taskengine/task"
)

// shelf is a host with documents.
type shelf struct {
	checker
	has map[string]task.Document
}

func (s shelf) ReadDocument(key string) (task.Document, error) {
	if key == "stock/broken" {
		return task.Document{}, errors.New("the store is away")
	}
	return s.has[key], nil
}

func TestDocumentsOfAnAnswerAreThoseOfAHandler(t *testing.T) {
	zero, version := uint64(0), uint64(7)
	documents := []*wire.WriteDocument{
		{Key: "a", Data: []byte("x"), Replaces: &version, ExpiresAt: 1234567}, {Key: "b", Delete: true}, {Key: "c", Replaces: &zero}, {Key: "d", Data: []byte{}},
	}
	want := []task.DocumentWrite{
		{Key: "a", Data: []byte("x"), Replaces: &version, ExpiresAt: time.UnixMicro(1234567).UTC()}, {Key: "b", Delete: true}, {Key: "c", Replaces: &zero}, {Key: "d", Data: []byte{}},
	}
	for name, f := range map[string]*wire.Finish{
		"result": {Outcome: &wire.Finish_Result{Result: []byte("so far")}},
		"again":  {Outcome: &wire.Finish_Again{Again: &wire.Again{At: 1, Result: []byte("so far")}}},
		"wait":   {Outcome: &wire.Finish_Again{Again: &wire.Again{Result: []byte("so far"), Wait: &wire.Wait{Names: []string{"paid"}}}}},
	} {
		f.Documents = documents
		a := AnswerOf(f)
		v := task.VerdictOf(a.Result, a.Err)
		if v.Outcome != task.Completed || string(v.Result) != "so far" || v.RunsAgain() != (name != "result") {
			t.Errorf("%s: the verdict is %+v", name, v)
		}
		if diff := cmp.Diff(want, v.Rerun.Documents); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
	failed := AnswerOf(&wire.Finish{Outcome: &wire.Finish_Error{Error: &wire.Error{Message: "no"}}, Documents: documents})
	if v := task.VerdictOf(failed.Result, failed.Err); v.Outcome != task.Errored || v.Rerun != nil {
		t.Errorf("the verdict on an attempt that has failed is %+v with %+v", v, v.Rerun)
	}
}

func TestAProgramUsesTheDocumentsOfItsHandlerOnly(t *testing.T) {
	rights := Rights{MayWrite: []string{"stock/*", "total"}, MayRead: []string{"price/*"}}
	for _, c := range []struct {
		key          string
		reads, wrote bool
	}{
		{"stock/a", true, true}, {"total", true, true}, {"price/a", true, false}, {"totals", false, false}, {"stock", false, false}, {"", false, false},
	} {
		f := &wire.Finish{Outcome: &wire.Finish_Result{}, Documents: []*wire.WriteDocument{{Key: "total"}, {Key: c.key, Delete: true}}}
		v := task.VerdictOf(nil, rights.AnswerOf(f).Err)
		if wrote := v.Outcome == task.Completed; wrote != c.wrote || !wrote && (v.Class != "forbidden" || !v.GiveUp) {
			t.Errorf("%q: the verdict on its write is %+v", c.key, v)
		}
		got := Read(shelf{}, &wire.ReadDocument{Key: c.key}, &rights)
		if (got.GetError() == "") != c.reads {
			t.Errorf("%q: the answer to its read is %v", c.key, got)
		}
	}
	none := Rights{}
	if v := task.VerdictOf(nil, none.AnswerOf(&wire.Finish{Outcome: &wire.Finish_Result{}, Documents: []*wire.WriteDocument{{Key: "a"}}}).Err); v.Class != "forbidden" {
		t.Errorf("without a rule the verdict is %+v", v)
	}
}

func TestAReadIsAnswered(t *testing.T) {
	at := time.Date(2026, 11, 30, 1, 2, 3, 4000, time.UTC)
	host := shelf{has: map[string]task.Document{"stock/a": {Key: "stock/a", Data: []byte("x"), Version: 7, CreatedAt: at, UpdatedAt: at.Add(1e3), ExpiresAt: at.Add(2e3)}}}
	rights := Rights{MayRead: []string{"*"}}
	for name, c := range map[string]struct {
		host task.Reporter
		key  string
		want *wire.DocumentRead
	}{
		"there":     {host, "stock/a", &wire.DocumentRead{Version: 7, Data: []byte("x"), CreatedAt: at.UnixMicro(), UpdatedAt: at.UnixMicro() + 1, ExpiresAt: at.UnixMicro() + 2}},
		"none":      {host, "stock/b", &wire.DocumentRead{}},
		"broken":    {host, "stock/broken", &wire.DocumentRead{Error: "the store is away"}},
		"no reader": {checker{}, "stock/a", &wire.DocumentRead{Error: errNoReader.Error()}},
	} {
		c.want.RunId, c.want.Number = 5, 3
		got := Read(c.host, &wire.ReadDocument{RunId: 5, Number: 3, Key: c.key}, &rights)
		if diff := cmp.Diff(c.want, got, protocmp.Transform()); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
	if got := Read(nil, &wire.ReadDocument{Key: "a"}, &rights); got.GetError() == "" || proto.Size(got) > wire.MaxErrorBytes+64 || strings.Contains(got.GetError(), "\n") {
		t.Errorf("without a host the answer is %v", got)
	}
}
