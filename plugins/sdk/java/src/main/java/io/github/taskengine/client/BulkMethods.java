package io.github.taskengine.client;

import io.github.taskengine.client.internal.Api;
import io.grpc.MethodDescriptor;

/** The methods of the API about bulk jobs, and those that set and delete one task. */
final class BulkMethods {
  static final MethodDescriptor<Api.PreviewBulkJobRequest, Api.PreviewBulkJobResponse> PREVIEW =
      Methods.unary(
          "PreviewBulkJob",
          Api.PreviewBulkJobRequest.getDefaultInstance(),
          Api.PreviewBulkJobResponse.getDefaultInstance());
  static final MethodDescriptor<Api.StartBulkJobRequest, Api.StartBulkJobResponse> START =
      Methods.unary(
          "StartBulkJob",
          Api.StartBulkJobRequest.getDefaultInstance(),
          Api.StartBulkJobResponse.getDefaultInstance());
  static final MethodDescriptor<Api.GetBulkJobRequest, Api.GetBulkJobResponse> GET =
      Methods.unary(
          "GetBulkJob",
          Api.GetBulkJobRequest.getDefaultInstance(),
          Api.GetBulkJobResponse.getDefaultInstance());
  static final MethodDescriptor<Api.ListBulkJobsRequest, Api.ListBulkJobsResponse> LIST =
      Methods.unary(
          "ListBulkJobs",
          Api.ListBulkJobsRequest.getDefaultInstance(),
          Api.ListBulkJobsResponse.getDefaultInstance());
  static final MethodDescriptor<Api.PauseBulkJobRequest, Api.PauseBulkJobResponse> PAUSE =
      Methods.unary(
          "PauseBulkJob",
          Api.PauseBulkJobRequest.getDefaultInstance(),
          Api.PauseBulkJobResponse.getDefaultInstance());
  static final MethodDescriptor<Api.ContinueBulkJobRequest, Api.ContinueBulkJobResponse> CONTINUE =
      Methods.unary(
          "ContinueBulkJob",
          Api.ContinueBulkJobRequest.getDefaultInstance(),
          Api.ContinueBulkJobResponse.getDefaultInstance());
  static final MethodDescriptor<Api.SetBulkJobRateRequest, Api.SetBulkJobRateResponse> SET_RATE =
      Methods.unary(
          "SetBulkJobRate",
          Api.SetBulkJobRateRequest.getDefaultInstance(),
          Api.SetBulkJobRateResponse.getDefaultInstance());
  static final MethodDescriptor<Api.StopBulkJobRequest, Api.StopBulkJobResponse> STOP =
      Methods.unary(
          "StopBulkJob",
          Api.StopBulkJobRequest.getDefaultInstance(),
          Api.StopBulkJobResponse.getDefaultInstance());
  static final MethodDescriptor<Api.SetTaskRequest, Api.SetTaskResponse> SET_TASK =
      Methods.unary(
          "SetTask",
          Api.SetTaskRequest.getDefaultInstance(),
          Api.SetTaskResponse.getDefaultInstance());
  static final MethodDescriptor<Api.DeleteTaskRequest, Api.DeleteTaskResponse> DELETE_TASK =
      Methods.unary(
          "DeleteTask",
          Api.DeleteTaskRequest.getDefaultInstance(),
          Api.DeleteTaskResponse.getDefaultInstance());

  private BulkMethods() {}
}
