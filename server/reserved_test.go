package server_test

import (
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/taskengine/taskengine/engine"
	"github.com/taskengine/taskengine/internal/access"
	"github.com/taskengine/taskengine/internal/reserved"
	taskenginev1 "github.com/taskengine/taskengine/server/proto/taskengine/v1"
	"github.com/taskengine/taskengine/server/proto/taskengine/v1/taskenginev1connect"
)

func TestATokenReachesReservedTasksOnlyAsAdmin(t *testing.T) {
	const typ = "taskengine.schedule"
	g := newGuarded(t, of("submit", access.Submit), of("operate", access.Operate), of("some", access.Admin, "taskengine.*"), of("admin", access.Admin))
	c := g.library(t, g.tcp.Addr().String())
	submit := &taskenginev1.SubmitRequest{Tasks: []*taskenginev1.NewTask{{Type: typ}}}
	for _, token := range []string{"submit", "operate", "some", "admin"} {
		err := c.Invoke(withToken(t.Context(), token), taskenginev1connect.TaskServiceSubmitProcedure, submit, new(taskenginev1.SubmitResponse))
		if status.Code(err) != codes.InvalidArgument || !strings.Contains(err.Error(), "is reserved") {
			t.Errorf("%s submits a schedule: %v", token, err)
		}
	}
	receipt, err := g.engine.SubmitReserved(t.Context(), reserved.Owner{}, engine.Request{Type: typ})
	if err != nil {
		t.Fatal(err)
	}
	id := receipt.ID.String()
	signal := &taskenginev1.SignalRequest{Id: id, Name: "paid", Keep: true}
	for _, token := range []string{"submit", "operate", "admin"} {
		err := c.Invoke(withToken(t.Context(), token), taskenginev1connect.TaskServiceSignalProcedure, signal, new(taskenginev1.SignalResponse))
		if status.Code(err) != codes.InvalidArgument || !strings.Contains(err.Error(), "take no signals") {
			t.Errorf("%s sends a signal to a schedule: %v", token, err)
		}
	}
	for _, token := range []string{"operate", "some", "admin"} {
		for _, one := range []struct {
			procedure string
			req, res  proto.Message
		}{
			{taskenginev1connect.TaskServiceRescheduleProcedure, &taskenginev1.RescheduleRequest{Id: id, Time: &taskenginev1.RescheduleRequest_In{In: durationpb.New(1e9)}}, new(taskenginev1.RescheduleResponse)},
			{taskenginev1connect.TaskServiceResumeProcedure, &taskenginev1.ResumeRequest{Id: id}, new(taskenginev1.ResumeResponse)},
			{taskenginev1connect.TaskServicePauseTypeProcedure, &taskenginev1.PauseTypeRequest{Type: typ}, new(taskenginev1.PauseTypeResponse)},
			{taskenginev1connect.TaskServiceResumeTypeProcedure, &taskenginev1.ResumeTypeRequest{Type: typ}, new(taskenginev1.ResumeTypeResponse)},
			{taskenginev1connect.TaskServiceCancelProcedure, &taskenginev1.CancelRequest{Id: id}, new(taskenginev1.CancelResponse)},
		} {
			err := c.Invoke(withToken(t.Context(), token), one.procedure, one.req, one.res)
			if want := map[bool]codes.Code{true: codes.OK, false: codes.PermissionDenied}[token == "admin"]; status.Code(err) != want {
				t.Errorf("%s with the token %s: %v", one.procedure, token, err)
			}
		}
	}
}
