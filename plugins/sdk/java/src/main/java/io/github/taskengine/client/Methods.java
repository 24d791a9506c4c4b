package io.github.taskengine.client;

import com.google.protobuf.Message;
import io.github.taskengine.client.internal.Api;
import io.grpc.Drainable;
import io.grpc.MethodDescriptor;
import io.grpc.MethodDescriptor.MethodType;
import io.grpc.protobuf.ProtoUtils;
import java.io.ByteArrayInputStream;
import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;

/** The methods of the API that clients call. */
final class Methods {
  private static final String SERVICE = "taskengine.v1.TaskService/";

  static final MethodDescriptor<byte[], Api.SubmitStreamResponse> SUBMIT_STREAM =
      MethodDescriptor.<byte[], Api.SubmitStreamResponse>newBuilder()
          .setType(MethodType.BIDI_STREAMING)
          .setFullMethodName(SERVICE + "SubmitStream")
          .setRequestMarshaller(new Encoded())
          .setResponseMarshaller(
              ProtoUtils.marshaller(Api.SubmitStreamResponse.getDefaultInstance()))
          .build();

  static final MethodDescriptor<Api.EventsRequest, Api.EventsResponse> EVENTS =
      streaming(
          "Events",
          Api.EventsRequest.getDefaultInstance(),
          Api.EventsResponse.getDefaultInstance());

  static final MethodDescriptor<Api.TaskLogsRequest, Api.TaskLogsResponse> TASK_LOGS =
      streaming(
          "TaskLogs",
          Api.TaskLogsRequest.getDefaultInstance(),
          Api.TaskLogsResponse.getDefaultInstance());

  static final MethodDescriptor<Api.SubmitRequest, Api.SubmitResponse> SUBMIT =
      unary(
          "Submit",
          Api.SubmitRequest.getDefaultInstance(),
          Api.SubmitResponse.getDefaultInstance());
  static final MethodDescriptor<Api.SubmitWithChildrenRequest, Api.SubmitWithChildrenResponse>
      SUBMIT_WITH_CHILDREN =
          unary(
              "SubmitWithChildren",
              Api.SubmitWithChildrenRequest.getDefaultInstance(),
              Api.SubmitWithChildrenResponse.getDefaultInstance());
  static final MethodDescriptor<Api.AddChildrenRequest, Api.AddChildrenResponse> ADD_CHILDREN =
      unary(
          "AddChildren",
          Api.AddChildrenRequest.getDefaultInstance(),
          Api.AddChildrenResponse.getDefaultInstance());
  static final MethodDescriptor<Api.GetRequest, Api.GetResponse> GET =
      unary("Get", Api.GetRequest.getDefaultInstance(), Api.GetResponse.getDefaultInstance());
  static final MethodDescriptor<Api.ListRequest, Api.ListResponse> LIST =
      unary("List", Api.ListRequest.getDefaultInstance(), Api.ListResponse.getDefaultInstance());
  static final MethodDescriptor<Api.CountRequest, Api.CountResponse> COUNT =
      unary("Count", Api.CountRequest.getDefaultInstance(), Api.CountResponse.getDefaultInstance());
  static final MethodDescriptor<Api.ListErrorsRequest, Api.ListErrorsResponse> LIST_ERRORS =
      unary(
          "ListErrors",
          Api.ListErrorsRequest.getDefaultInstance(),
          Api.ListErrorsResponse.getDefaultInstance());
  static final MethodDescriptor<Api.WaitRequest, Api.WaitResponse> WAIT =
      unary("Wait", Api.WaitRequest.getDefaultInstance(), Api.WaitResponse.getDefaultInstance());
  static final MethodDescriptor<Api.WhyRequest, Api.WhyResponse> WHY =
      unary("Why", Api.WhyRequest.getDefaultInstance(), Api.WhyResponse.getDefaultInstance());
  static final MethodDescriptor<Api.TreeRequest, Api.TreeResponse> TREE =
      unary("Tree", Api.TreeRequest.getDefaultInstance(), Api.TreeResponse.getDefaultInstance());
  static final MethodDescriptor<Api.SubmitWorkflowRequest, Api.SubmitWorkflowResponse>
      SUBMIT_WORKFLOW =
          unary(
              "SubmitWorkflow",
              Api.SubmitWorkflowRequest.getDefaultInstance(),
              Api.SubmitWorkflowResponse.getDefaultInstance());
  static final MethodDescriptor<Api.GetWorkflowRequest, Api.GetWorkflowResponse> GET_WORKFLOW =
      unary(
          "GetWorkflow",
          Api.GetWorkflowRequest.getDefaultInstance(),
          Api.GetWorkflowResponse.getDefaultInstance());
  static final MethodDescriptor<Api.RetryWorkflowRequest, Api.RetryWorkflowResponse>
      RETRY_WORKFLOW =
          unary(
              "RetryWorkflow",
              Api.RetryWorkflowRequest.getDefaultInstance(),
              Api.RetryWorkflowResponse.getDefaultInstance());
  static final MethodDescriptor<Api.CancelRequest, Api.CancelResponse> CANCEL =
      unary(
          "Cancel",
          Api.CancelRequest.getDefaultInstance(),
          Api.CancelResponse.getDefaultInstance());
  static final MethodDescriptor<Api.FailRequest, Api.FailResponse> FAIL =
      unary("Fail", Api.FailRequest.getDefaultInstance(), Api.FailResponse.getDefaultInstance());
  static final MethodDescriptor<Api.ResumeRequest, Api.ResumeResponse> RESUME =
      unary(
          "Resume",
          Api.ResumeRequest.getDefaultInstance(),
          Api.ResumeResponse.getDefaultInstance());
  static final MethodDescriptor<Api.RescheduleRequest, Api.RescheduleResponse> RESCHEDULE =
      unary(
          "Reschedule",
          Api.RescheduleRequest.getDefaultInstance(),
          Api.RescheduleResponse.getDefaultInstance());
  static final MethodDescriptor<Api.SignalRequest, Api.SignalResponse> SIGNAL =
      unary(
          "Signal",
          Api.SignalRequest.getDefaultInstance(),
          Api.SignalResponse.getDefaultInstance());
  static final MethodDescriptor<Api.ListLimitsRequest, Api.ListLimitsResponse> LIST_LIMITS =
      unary(
          "ListLimits",
          Api.ListLimitsRequest.getDefaultInstance(),
          Api.ListLimitsResponse.getDefaultInstance());
  static final MethodDescriptor<Api.GetLimitRequest, Api.GetLimitResponse> GET_LIMIT =
      unary(
          "GetLimit",
          Api.GetLimitRequest.getDefaultInstance(),
          Api.GetLimitResponse.getDefaultInstance());
  static final MethodDescriptor<Api.WhyLimitRequest, Api.WhyLimitResponse> WHY_LIMIT =
      unary(
          "WhyLimit",
          Api.WhyLimitRequest.getDefaultInstance(),
          Api.WhyLimitResponse.getDefaultInstance());
  static final MethodDescriptor<Api.SetLimitRequest, Api.SetLimitResponse> SET_LIMIT =
      unary(
          "SetLimit",
          Api.SetLimitRequest.getDefaultInstance(),
          Api.SetLimitResponse.getDefaultInstance());
  static final MethodDescriptor<Api.UnsetLimitRequest, Api.UnsetLimitResponse> UNSET_LIMIT =
      unary(
          "UnsetLimit",
          Api.UnsetLimitRequest.getDefaultInstance(),
          Api.UnsetLimitResponse.getDefaultInstance());
  static final MethodDescriptor<Api.ListSchedulesRequest, Api.ListSchedulesResponse>
      LIST_SCHEDULES =
          unary(
              "ListSchedules",
              Api.ListSchedulesRequest.getDefaultInstance(),
              Api.ListSchedulesResponse.getDefaultInstance());
  static final MethodDescriptor<Api.GetScheduleRequest, Api.GetScheduleResponse> GET_SCHEDULE =
      unary(
          "GetSchedule",
          Api.GetScheduleRequest.getDefaultInstance(),
          Api.GetScheduleResponse.getDefaultInstance());
  static final MethodDescriptor<Api.ApplyScheduleRequest, Api.ApplyScheduleResponse>
      APPLY_SCHEDULE =
          unary(
              "ApplySchedule",
              Api.ApplyScheduleRequest.getDefaultInstance(),
              Api.ApplyScheduleResponse.getDefaultInstance());
  static final MethodDescriptor<Api.ApplySchedulesRequest, Api.ApplySchedulesResponse>
      APPLY_SCHEDULES =
          unary(
              "ApplySchedules",
              Api.ApplySchedulesRequest.getDefaultInstance(),
              Api.ApplySchedulesResponse.getDefaultInstance());
  static final MethodDescriptor<Api.PauseSchedulesRequest, Api.PauseSchedulesResponse>
      PAUSE_SCHEDULES =
          unary(
              "PauseSchedules",
              Api.PauseSchedulesRequest.getDefaultInstance(),
              Api.PauseSchedulesResponse.getDefaultInstance());
  static final MethodDescriptor<Api.ResumeSchedulesRequest, Api.ResumeSchedulesResponse>
      RESUME_SCHEDULES =
          unary(
              "ResumeSchedules",
              Api.ResumeSchedulesRequest.getDefaultInstance(),
              Api.ResumeSchedulesResponse.getDefaultInstance());
  static final MethodDescriptor<Api.DeleteSchedulesRequest, Api.DeleteSchedulesResponse>
      DELETE_SCHEDULES =
          unary(
              "DeleteSchedules",
              Api.DeleteSchedulesRequest.getDefaultInstance(),
              Api.DeleteSchedulesResponse.getDefaultInstance());
  static final MethodDescriptor<Api.PreviewScheduleRequest, Api.PreviewScheduleResponse>
      PREVIEW_SCHEDULE =
          unary(
              "PreviewSchedule",
              Api.PreviewScheduleRequest.getDefaultInstance(),
              Api.PreviewScheduleResponse.getDefaultInstance());
  static final MethodDescriptor<Api.DeleteScheduleRequest, Api.DeleteScheduleResponse>
      DELETE_SCHEDULE =
          unary(
              "DeleteSchedule",
              Api.DeleteScheduleRequest.getDefaultInstance(),
              Api.DeleteScheduleResponse.getDefaultInstance());
  static final MethodDescriptor<Api.PauseScheduleRequest, Api.PauseScheduleResponse>
      PAUSE_SCHEDULE =
          unary(
              "PauseSchedule",
              Api.PauseScheduleRequest.getDefaultInstance(),
              Api.PauseScheduleResponse.getDefaultInstance());
  static final MethodDescriptor<Api.ResumeScheduleRequest, Api.ResumeScheduleResponse>
      RESUME_SCHEDULE =
          unary(
              "ResumeSchedule",
              Api.ResumeScheduleRequest.getDefaultInstance(),
              Api.ResumeScheduleResponse.getDefaultInstance());
  static final MethodDescriptor<Api.TriggerScheduleRequest, Api.TriggerScheduleResponse>
      TRIGGER_SCHEDULE =
          unary(
              "TriggerSchedule",
              Api.TriggerScheduleRequest.getDefaultInstance(),
              Api.TriggerScheduleResponse.getDefaultInstance());
  static final MethodDescriptor<Api.BackfillScheduleRequest, Api.BackfillScheduleResponse>
      BACKFILL_SCHEDULE =
          unary(
              "BackfillSchedule",
              Api.BackfillScheduleRequest.getDefaultInstance(),
              Api.BackfillScheduleResponse.getDefaultInstance());
  static final MethodDescriptor<Api.ListSourcesRequest, Api.ListSourcesResponse> LIST_SOURCES =
      unary(
          "ListSources",
          Api.ListSourcesRequest.getDefaultInstance(),
          Api.ListSourcesResponse.getDefaultInstance());
  static final MethodDescriptor<Api.GetSourceRequest, Api.GetSourceResponse> GET_SOURCE =
      unary(
          "GetSource",
          Api.GetSourceRequest.getDefaultInstance(),
          Api.GetSourceResponse.getDefaultInstance());
  static final MethodDescriptor<Api.PauseSourceRequest, Api.PauseSourceResponse> PAUSE_SOURCE =
      unary(
          "PauseSource",
          Api.PauseSourceRequest.getDefaultInstance(),
          Api.PauseSourceResponse.getDefaultInstance());
  static final MethodDescriptor<Api.ResumeSourceRequest, Api.ResumeSourceResponse> RESUME_SOURCE =
      unary(
          "ResumeSource",
          Api.ResumeSourceRequest.getDefaultInstance(),
          Api.ResumeSourceResponse.getDefaultInstance());
  static final MethodDescriptor<Api.SeekSourceRequest, Api.SeekSourceResponse> SEEK_SOURCE =
      unary(
          "SeekSource",
          Api.SeekSourceRequest.getDefaultInstance(),
          Api.SeekSourceResponse.getDefaultInstance());
  static final MethodDescriptor<Api.VersionRequest, Api.VersionResponse> VERSION =
      unary(
          "Version",
          Api.VersionRequest.getDefaultInstance(),
          Api.VersionResponse.getDefaultInstance());

  private Methods() {}

  /** A method with one request and one answer. */
  static <Q extends Message, A extends Message> MethodDescriptor<Q, A> unary(
      String name, Q request, A answer) {
    return method(MethodType.UNARY, name, request, answer);
  }

  private static <Q extends Message, A extends Message> MethodDescriptor<Q, A> streaming(
      String name, Q request, A answer) {
    return method(MethodType.SERVER_STREAMING, name, request, answer);
  }

  private static <Q extends Message, A extends Message> MethodDescriptor<Q, A> method(
      MethodType type, String name, Q request, A answer) {
    return MethodDescriptor.<Q, A>newBuilder()
        .setType(type)
        .setFullMethodName(SERVICE + name)
        .setRequestMarshaller(ProtoUtils.marshaller(request))
        .setResponseMarshaller(ProtoUtils.marshaller(answer))
        .build();
  }

  /** Messages that are encoded already. */
  private static final class Encoded implements MethodDescriptor.Marshaller<byte[]> {
    @Override
    public InputStream stream(byte[] message) {
      return new Whole(message);
    }

    @Override
    public byte[] parse(InputStream stream) {
      throw new UnsupportedOperationException("a client parses no request");
    }
  }

  /** A message that is written at once. */
  private static final class Whole extends ByteArrayInputStream implements Drainable {
    Whole(byte[] message) {
      super(message);
    }

    @Override
    public int drainTo(OutputStream target) throws IOException {
      int size = available();
      target.write(buf, pos, size);
      pos = count;
      return size;
    }
  }
}
