package io.github.taskengine.client;

import io.github.taskengine.client.internal.Api;
import io.grpc.MethodDescriptor;

/** The methods of the API about types, ordering keys, alerts and configurations. */
final class OperationMethods {
  static final MethodDescriptor<Api.ListTypesRequest, Api.ListTypesResponse> LIST_TYPES =
      Methods.unary(
          "ListTypes",
          Api.ListTypesRequest.getDefaultInstance(),
          Api.ListTypesResponse.getDefaultInstance());
  static final MethodDescriptor<Api.PauseTypeRequest, Api.PauseTypeResponse> PAUSE_TYPE =
      Methods.unary(
          "PauseType",
          Api.PauseTypeRequest.getDefaultInstance(),
          Api.PauseTypeResponse.getDefaultInstance());
  static final MethodDescriptor<Api.ResumeTypeRequest, Api.ResumeTypeResponse> RESUME_TYPE =
      Methods.unary(
          "ResumeType",
          Api.ResumeTypeRequest.getDefaultInstance(),
          Api.ResumeTypeResponse.getDefaultInstance());
  static final MethodDescriptor<Api.ListKeysRequest, Api.ListKeysResponse> LIST_KEYS =
      Methods.unary(
          "ListKeys",
          Api.ListKeysRequest.getDefaultInstance(),
          Api.ListKeysResponse.getDefaultInstance());
  static final MethodDescriptor<Api.GetKeyRequest, Api.GetKeyResponse> GET_KEY =
      Methods.unary(
          "GetKey",
          Api.GetKeyRequest.getDefaultInstance(),
          Api.GetKeyResponse.getDefaultInstance());
  static final MethodDescriptor<Api.ResumeKeyRequest, Api.ResumeKeyResponse> RESUME_KEY =
      Methods.unary(
          "ResumeKey",
          Api.ResumeKeyRequest.getDefaultInstance(),
          Api.ResumeKeyResponse.getDefaultInstance());
  static final MethodDescriptor<Api.SkipKeyRequest, Api.SkipKeyResponse> SKIP_KEY =
      Methods.unary(
          "SkipKey",
          Api.SkipKeyRequest.getDefaultInstance(),
          Api.SkipKeyResponse.getDefaultInstance());
  static final MethodDescriptor<Api.ListAlertsRequest, Api.ListAlertsResponse> LIST_ALERTS =
      Methods.unary(
          "ListAlerts",
          Api.ListAlertsRequest.getDefaultInstance(),
          Api.ListAlertsResponse.getDefaultInstance());
  static final MethodDescriptor<Api.SilenceAlertsRequest, Api.SilenceAlertsResponse>
      SILENCE_ALERTS =
          Methods.unary(
              "SilenceAlerts",
              Api.SilenceAlertsRequest.getDefaultInstance(),
              Api.SilenceAlertsResponse.getDefaultInstance());
  static final MethodDescriptor<Api.UnsilenceAlertsRequest, Api.UnsilenceAlertsResponse>
      UNSILENCE_ALERTS =
          Methods.unary(
              "UnsilenceAlerts",
              Api.UnsilenceAlertsRequest.getDefaultInstance(),
              Api.UnsilenceAlertsResponse.getDefaultInstance());
  static final MethodDescriptor<Api.TestAlertsRequest, Api.TestAlertsResponse> TEST_ALERTS =
      Methods.unary(
          "TestAlerts",
          Api.TestAlertsRequest.getDefaultInstance(),
          Api.TestAlertsResponse.getDefaultInstance());
  static final MethodDescriptor<Api.ApplyConfigRequest, Api.ApplyConfigResponse> APPLY_CONFIG =
      Methods.unary(
          "ApplyConfig",
          Api.ApplyConfigRequest.getDefaultInstance(),
          Api.ApplyConfigResponse.getDefaultInstance());

  private OperationMethods() {}
}
