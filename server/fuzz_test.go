package server_test

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/taskengine/taskengine/engine"
	"github.com/taskengine/taskengine/policy"
	"github.com/taskengine/taskengine/server"
	taskenginev1 "github.com/taskengine/taskengine/server/proto/taskengine/v1"
	"github.com/taskengine/taskengine/storage/memory"
	"github.com/taskengine/taskengine/timeslice"
	"github.com/taskengine/taskengine/timeslice/slicer"
)

var methods = []string{
	"Submit", "SubmitWithChildren", "AddChildren", "Get", "List", "Count", "ListErrors", "Wait", "Why", "Tree", "SubmitWorkflow", "GetWorkflow", "RetryWorkflow", "Cancel", "Resume", "Fail", "Reschedule",
	"ListTypes", "Overview", "PauseType", "ResumeType", "Version", "ListWorkers", "DrainWorker", "ListLimits", "GetLimit", "SetLimit", "UnsetLimit", "WhyLimit",
	"ListSchedules", "GetSchedule", "ApplySchedule", "PreviewSchedule", "DeleteSchedule", "PauseSchedule", "ResumeSchedule",
	"TriggerSchedule", "BackfillSchedule", "ListKeys", "GetKey", "ResumeKey", "SkipKey", "GetDocument", "ListDocuments", "SetDocument", "DeleteDocument",
	"ListSources", "GetSource", "PauseSource", "ResumeSource", "SeekSource",
	"ListSliceSources", "GetSliceSource", "ListPlatforms", "GetPlatform", "SetSlices", "AddPlatform", "ApplyPlatforms", "RemovePlatform", "PauseSlices", "ResumeSlices", "ResetPlatform", "RetrySlices",
	"SetTask", "DeleteTask", "PreviewBulkJob", "StartBulkJob", "ListBulkJobs", "GetBulkJob", "PauseBulkJob", "ContinueBulkJob", "SetBulkJobRate", "StopBulkJob",
	"AddToken", "ListTokens", "RevokeToken", "RotateToken", "RevokeSessions",
}

// FuzzAPI sends arbitrary bodies to every method, as JSON and as protobuf. The code of the response is never internal.
func FuzzAPI(f *testing.F) {
	seed(f)
	keyed := policy.DefaultType()
	keyed.Limits = []string{"l"}
	polled := fuzzedSlices(f)
	policies := policy.Set{
		Types:  polled.Policies(),
		Limits: map[string]policy.Limit{"l": {Name: "l", Max: 1, Per: "payload.a.b"}},
	}
	policies.Types["keyed"] = keyed

	f.Fuzz(func(t *testing.T, method byte, asJSON bool, body []byte) {
		e, err := engine.Open(t.Context(), engine.Config{Store: memory.New(), Policies: policies, Handlers: polled.Handlers()})
		if err != nil {
			t.Fatal(err)
		}
		defer e.Close(context.Background())
		if _, err := e.Submit(t.Context(), engine.Request{ID: refOf(t, fuzzedID).ID, Type: "idle"}); err != nil {
			t.Fatal(err)
		}
		if err := polled.Apply(t.Context(), e); err != nil {
			t.Fatal(err)
		}
		if err := polled.Add(t.Context(), e, timeslice.Platform{Source: "orders", Name: "a"}, nil, slicer.By{}); err != nil {
			t.Fatal(err)
		}
		api := server.NewAPI(server.APIConfig{Engine: e, MaxRequest: 1 << 16, Slices: polled})
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Millisecond) // of a wait
		defer cancel()
		path := "/taskengine.v1.TaskService/" + methods[int(method)%len(methods)]
		req := httptest.NewRequestWithContext(ctx, http.MethodPost, path, bytes.NewReader(body))
		req.Header.Set("Content-Type", "application/proto")
		if asJSON {
			req.Header.Set("Content-Type", "application/json")
		}
		res := httptest.NewRecorder()
		api.ServeHTTP(res, req)
		if res.Code == http.StatusInternalServerError {
			t.Fatalf("%s answers %d: %s", path, res.Code, res.Body)
		}
		if res.Code == http.StatusOK {
			return
		}
		var failure struct{ Code, Message string }
		if err := json.Unmarshal(res.Body.Bytes(), &failure); err != nil || failure.Code == "" || strings.TrimSpace(failure.Message) == "" {
			t.Errorf("%s answers %d with %q, which says nothing", path, res.Code, res.Body)
		}
	})
}

// fuzzedSlices returns the source of time slices orders, without a platform.
func fuzzedSlices(f *testing.F) *slicer.Sources {
	interval := timeslice.Span(time.Hour)
	s, err := slicer.New(slicer.Config{Sources: map[string]timeslice.Definition{"orders": {Type: "fetch", Values: timeslice.Values{Interval: &interval}}}})
	if err != nil {
		f.Fatal(err)
	}
	return s
}

// fuzzedID is the id of the task that exists when a request comes.
const fuzzedID = "0190a6f0-7c3e-7cc0-8b5e-3f1d2c4b5a69"

var fuzzedSchedule = &taskenginev1.ScheduleDefinition{
	Cron: "H/5 2 * * MON-FRI", Timezone: "Europe/Berlin", Gap: "skip", Repeat: "both", Start: timestamppb.New(time.Unix(1, 0)),
	Jitter: durationpb.New(time.Minute), CatchUp: &taskenginev1.ScheduleCatchUp{Policy: "all", Max: 3, Window: durationpb.New(time.Hour)},
	Overlap: "queue", Task: &taskenginev1.ScheduleTask{Type: "idle", Payload: "{{date}}", Headers: map[string]string{"a": "b"}},
}

// seed gives the fuzzer a request of every method, in both encodings.
func seed(f *testing.F) {
	f.Helper()
	priority := uint32(3)
	for _, m := range []proto.Message{
		&taskenginev1.SubmitRequest{Tasks: []*taskenginev1.NewTask{
			{
				Id: fuzzedID, Type: "idle", Input: &taskenginev1.NewTask_Text{Text: "{}"}, Priority: &priority, Key: "k", OrderingKey: "o",
				In: durationpb.New(time.Hour), ExpiresAt: timestamppb.New(time.Unix(1<<33, 0)), Headers: map[string]string{"a": "b"},
			},
			{Type: "keyed", Input: &taskenginev1.NewTask_Payload{Payload: []byte(`{"a":1e999}`)}, At: timestamppb.New(time.Unix(1, 2))},
		}},
		&taskenginev1.GetRequest{Id: fuzzedID},
		&taskenginev1.ListRequest{States: []string{"done"}, Types: []string{"idle"}, Limit: 5, PageToken: fuzzedID},
		&taskenginev1.CountRequest{States: []string{"submitted"}},
		&taskenginev1.WaitRequest{Ids: []string{fuzzedID}, Timeout: durationpb.New(time.Millisecond)},
		&taskenginev1.WhyRequest{Id: fuzzedID},
		&taskenginev1.CancelRequest{Id: fuzzedID, Version: 1, Reason: "r"},
		&taskenginev1.ResumeRequest{Id: fuzzedID},
		&taskenginev1.FailRequest{Id: fuzzedID},
		&taskenginev1.RescheduleRequest{Id: fuzzedID, Time: &taskenginev1.RescheduleRequest_In{In: &durationpb.Duration{Seconds: 315_576_000_000}}},
		&taskenginev1.ListTypesRequest{},
		&taskenginev1.PauseTypeRequest{Type: "idle"},
		&taskenginev1.ResumeTypeRequest{Type: "idle"},
		&taskenginev1.VersionRequest{},
		&taskenginev1.DrainWorkerRequest{Worker: "mail/1"},
		&taskenginev1.ListLimitsRequest{},
		&taskenginev1.GetLimitRequest{Name: "l", Value: "a"},
		&taskenginev1.SetLimitRequest{
			Name: "l", Value: "a*", Max: &priority, Rate: &taskenginev1.Rate{Count: 1, Per: durationpb.New(time.Second), Burst: 2}, IfVersion: new(uint64), By: "b",
		},
		&taskenginev1.UnsetLimitRequest{Name: "l", By: "b"},
		&taskenginev1.WhyLimitRequest{Name: "l", Value: "a"},
		&taskenginev1.ListSchedulesRequest{Limit: 5, PageToken: fuzzedID},
		&taskenginev1.GetScheduleRequest{Name: "s"},
		&taskenginev1.ApplyScheduleRequest{Name: "s", Definition: fuzzedSchedule},
		&taskenginev1.PreviewScheduleRequest{Name: "s", Definition: fuzzedSchedule, From: timestamppb.New(time.Unix(1<<33, 0)), Count: 3},
		&taskenginev1.DeleteScheduleRequest{Name: "s"},
		&taskenginev1.PauseScheduleRequest{Name: "s", Reason: "r"},
		&taskenginev1.ResumeScheduleRequest{Name: "s"},
		&taskenginev1.TriggerScheduleRequest{Name: "s"},
		&taskenginev1.BackfillScheduleRequest{Name: "s", From: timestamppb.New(time.Unix(1, 0)), To: timestamppb.New(time.Unix(1<<20, 0))},
		&taskenginev1.ListSliceSourcesRequest{},
		&taskenginev1.GetSliceSourceRequest{Name: "orders"},
		&taskenginev1.ListPlatformsRequest{Source: "orders", Prefix: "a", Limit: 5, PageToken: "a"},
		&taskenginev1.GetPlatformRequest{Source: "orders", Platform: "a"},
		&taskenginev1.SetSlicesRequest{Source: "orders", Platform: "a", Values: map[string]string{"interval": "2m", "start": "2026-01-01T00:00:00Z", "order": "in_order"}, By: "b", Reason: "r"},
		&taskenginev1.SetSlicesRequest{Source: "orders", Values: map[string]string{"retries": "1", "lag": ""}},
		&taskenginev1.AddPlatformRequest{Source: "orders", Platform: "c"},
		&taskenginev1.ApplyPlatformsRequest{Source: "orders", Platforms: []*taskenginev1.PlatformRow{{Name: "a", Values: map[string]string{"lag": "1s"}, Replace: true}, {Name: "b", Removed: true, IfVersion: new(uint64(1))}}, By: "b", Reason: "r"},
		&taskenginev1.PauseSlicesRequest{Source: "orders", Prefix: "a"},
		&taskenginev1.RemovePlatformRequest{Source: "orders", Platform: "a"},
		&taskenginev1.PauseSlicesRequest{Source: "orders", Platform: "a"},
		&taskenginev1.ResumeSlicesRequest{Source: "orders"},
		&taskenginev1.ResetPlatformRequest{Source: "orders", Platform: "a", From: timestamppb.New(time.Unix(1, 0)), To: timestamppb.New(time.Unix(1<<33, 0))},
		&taskenginev1.PreviewBulkJobRequest{Order: &taskenginev1.BulkOrder{Verb: "resume", Where: "state=error error~503"}},
		&taskenginev1.StartBulkJobRequest{Order: &taskenginev1.BulkOrder{Verb: "reschedule", Where: "type=idle", Types: []string{"idle"}, In: durationpb.New(time.Hour)}, Name: "job", Rate: 0.5, By: "b"},
		&taskenginev1.SetTaskRequest{Id: fuzzedID, Values: &taskenginev1.TaskValues{Priority: new(uint32(3)), Text: new("x"), Headers: map[string]string{"a": "b"}, RemoveHeaders: []string{"c"}}, In: durationpb.New(time.Hour)},
		&taskenginev1.DeleteTaskRequest{Id: fuzzedID},
		&taskenginev1.ListBulkJobsRequest{Limit: 3, PageToken: "job"},
		&taskenginev1.GetBulkJobRequest{Name: "job"},
		&taskenginev1.PauseBulkJobRequest{Name: "job", By: "b", Reason: "r"},
		&taskenginev1.ContinueBulkJobRequest{Name: "job", By: "b", Reason: "r"},
		&taskenginev1.SetBulkJobRateRequest{Name: "job", By: "b", Rate: 3},
		&taskenginev1.StopBulkJobRequest{Name: "job", By: "b", Reason: "r"},
		&taskenginev1.AddTokenRequest{Name: "n", Roles: []string{"view"}, Types: []string{"idle"}, ExpiresIn: durationpb.New(time.Hour), By: "b"},
		&taskenginev1.ListTokensRequest{Revoked: true},
		&taskenginev1.RevokeTokenRequest{Name: "n", Force: true, By: "b"},
		&taskenginev1.RotateTokenRequest{Name: "n", Grace: durationpb.New(time.Minute), By: "b"},
		&taskenginev1.RevokeSessionsRequest{Person: "ann@example.com", By: "b"},
		&taskenginev1.RetrySlicesRequest{Source: "orders", Platform: "a", From: timestamppb.New(time.Unix(1, 0)), Until: timestamppb.New(time.Unix(1<<30, 0))},
	} {
		name := strings.TrimSuffix(string(m.ProtoReflect().Descriptor().Name()), "Request")
		i := slices.Index(methods, name)
		if i < 0 {
			f.Fatalf("there is no method %s", name)
		}
		binary, err := proto.Marshal(m)
		if err != nil {
			f.Fatal(err)
		}
		text, err := protojson.Marshal(m)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(byte(i), false, binary)
		f.Add(byte(i), true, text)
	}
	f.Add(byte(0), true, []byte(`{"tasks":[null]}`))
	f.Add(byte(0), true, []byte(`{"tasks":[{"headers":{"":""}}]}`))
	f.Add(byte(2), true, []byte(`{"limit":-1}`))
}
