package server_test

import (
	"strings"
	"testing"

	taskenginev1 "github.com/taskengine/taskengine/server/proto/taskengine/v1"
)

func TestAnOrderingKeyIsShownAndGoesOnAfterAnError(t *testing.T) {
	n := newNode(t)
	c := n.client(t)
	add := func(typ, key string) string { return n.submit(t, &taskenginev1.NewTask{Type: typ, OrderingKey: key}) }
	first, second, third := add("fail", "account 1"), add("fail", "account 1"), add("echo", "account 1")
	running := add("hold", "account 2")
	n.until(t, first, "error")
	n.until(t, running, "processing")
	third2 := n.until(t, third, "submitted")
	if third2.GetTurn() != "behind" || n.until(t, first, "error").GetTurn() != "head" {
		t.Errorf("the turn of the last is %q", third2.GetTurn())
	}
	why, err := c.Why(t.Context(), &taskenginev1.WhyRequest{Id: third})
	if r := why.GetReasons(); err != nil || len(r) != 1 || r[0].GetCode() != "behind" || r[0].GetHead() != first || r[0].GetHeadState() != "error" {
		t.Errorf("why: %v, %v", why, err)
	}
	all, err := c.ListKeys(t.Context(), &taskenginev1.ListKeysRequest{})
	if err != nil || len(all.GetKeys()) != 2 || all.GetKeys()[0].GetBehind() != 2 || all.GetKeys()[1].GetHead().GetId() != running || all.GetKeys()[0].GetOldestReadyAt() == nil {
		t.Errorf("the keys are %v, %v", all, err)
	}
	for _, req := range []*taskenginev1.ListKeysRequest{{States: []string{"error"}}, {Behind: true}, {Limit: 1}} {
		if some, err := c.ListKeys(t.Context(), req); err != nil || len(some.GetKeys()) != 1 || some.GetKeys()[0].GetKey() != "account 1" {
			t.Errorf("%v: %v, %v", req, some, err)
		}
	}
	var ids []string
	for req := (&taskenginev1.GetKeyRequest{Key: "account 1", Limit: 1}); ; {
		res, err := c.GetKey(t.Context(), req)
		if err != nil || res.GetHead().GetId() != first {
			t.Fatalf("the key is %v, %v", res, err)
		}
		for _, b := range res.GetBehind() {
			ids = append(ids, b.GetId())
		}
		if req.PageToken = res.GetNextPageToken(); req.PageToken == "" {
			break
		}
	}
	if strings.Join(ids, " ") != second+" "+third {
		t.Errorf("behind are %v, want %s and %s", ids, second, third)
	}
	if res, err := c.SkipKey(t.Context(), &taskenginev1.SkipKeyRequest{Key: "account 1", Reason: "no use"}); err != nil || res.GetTask().GetState() != "failed" || res.GetTask().GetError() != "no use" || res.GetTask().GetTurn() != "" {
		t.Errorf("skipped: %v, %v", res, err)
	}
	n.until(t, second, "error")
	if res, err := c.ResumeKey(t.Context(), &taskenginev1.ResumeKeyRequest{Key: "account 1"}); err != nil || res.GetTask().GetId() != second || res.GetTask().GetAttempt() != 0 {
		t.Errorf("resumed: %v, %v", res, err)
	}
	n.until(t, second, "error")
	if _, err := c.SkipKey(t.Context(), &taskenginev1.SkipKeyRequest{Key: "account 1"}); err != nil {
		t.Error(err)
	}
	n.until(t, third, "done")
}

func TestTheInheritedPriorityOfAHeadIsShown(t *testing.T) {
	n := newNode(t)
	add := func(priority uint32) string {
		return n.submit(t, &taskenginev1.NewTask{Type: "idle", OrderingKey: "account 3", Priority: &priority})
	}
	head := add(7)
	if got := n.until(t, head, "submitted"); got.InheritedPriority != nil {
		t.Errorf("a head with nothing behind it has inherited %d", got.GetInheritedPriority())
	}
	behind := add(0)
	if got := n.until(t, head, "submitted"); got.GetPriority() != 7 || got.InheritedPriority == nil || got.GetInheritedPriority() != 0 {
		t.Errorf("the head is %v; want its priority, 7, and 0, which it has inherited", got)
	}
	if got := n.until(t, behind, "submitted"); got.InheritedPriority != nil {
		t.Errorf("a task behind the head has inherited %d", got.GetInheritedPriority())
	}
}

func TestBadRequestsAboutOrderingKeysAreRefused(t *testing.T) {
	n := newNode(t)
	n.until(t, n.submit(t, &taskenginev1.NewTask{Type: "hold", OrderingKey: "busy"}), "processing")
	for name, c := range map[string]struct{ method, body, code, says string }{
		"an unknown key":                 {"GetKey", `{"key":"none"}`, "not_found", "no task of the ordering key"},
		"no key":                         {"GetKey", `{}`, "invalid_argument", "1 to 500 bytes"},
		"a key that is too long":         {"ResumeKey", `{"key":"` + strings.Repeat("k", 501) + `"}`, "invalid_argument", "1 to 500 bytes"},
		"too many tasks":                 {"GetKey", `{"key":"busy","limit":1001}`, "invalid_argument", "of 1000 allowed"},
		"a made-up page":                 {"GetKey", `{"key":"busy","pageToken":"x"}`, "invalid_argument", "page_token"},
		"too many keys":                  {"ListKeys", `{"limit":1001}`, "invalid_argument", "of 1000 allowed"},
		"an unknown state":               {"ListKeys", `{"states":["stopped"]}`, "invalid_argument", "stopped"},
		"resume of a head that runs":     {"ResumeKey", `{"key":"busy"}`, "failed_precondition", "is processing"},
		"skip of a head that runs":       {"SkipKey", `{"key":"busy"}`, "failed_precondition", "is processing"},
		"resume of a key without a task": {"ResumeKey", `{"key":"none"}`, "not_found", "none"},
		"skip of a key without a task":   {"SkipKey", `{"key":"none"}`, "not_found", "none"},
		"a misspelled field":             {"SkipKey", `{"key":"busy","why":"x"}`, "invalid_argument", "why"},
	} {
		t.Run(name, func(t *testing.T) {
			_, res := n.post(t, c.method, c.body)
			if message, _ := res["message"].(string); res["code"] != c.code || !strings.Contains(message, c.says) {
				t.Errorf("the answer is %v, want %s: %s", res, c.code, c.says)
			}
		})
	}
}
