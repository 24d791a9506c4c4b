package io.github.taskengine.client;

import io.github.taskengine.client.internal.Api;
import io.grpc.MethodDescriptor;

/** The methods of the API about time slices. */
final class SliceMethods {
  static final MethodDescriptor<Api.ListSliceSourcesRequest, Api.ListSliceSourcesResponse>
      LIST_SLICE_SOURCES =
          Methods.unary(
              "ListSliceSources",
              Api.ListSliceSourcesRequest.getDefaultInstance(),
              Api.ListSliceSourcesResponse.getDefaultInstance());
  static final MethodDescriptor<Api.GetSliceSourceRequest, Api.GetSliceSourceResponse>
      GET_SLICE_SOURCE =
          Methods.unary(
              "GetSliceSource",
              Api.GetSliceSourceRequest.getDefaultInstance(),
              Api.GetSliceSourceResponse.getDefaultInstance());
  static final MethodDescriptor<Api.ListPlatformsRequest, Api.ListPlatformsResponse>
      LIST_PLATFORMS =
          Methods.unary(
              "ListPlatforms",
              Api.ListPlatformsRequest.getDefaultInstance(),
              Api.ListPlatformsResponse.getDefaultInstance());
  static final MethodDescriptor<Api.GetPlatformRequest, Api.GetPlatformResponse> GET_PLATFORM =
      Methods.unary(
          "GetPlatform",
          Api.GetPlatformRequest.getDefaultInstance(),
          Api.GetPlatformResponse.getDefaultInstance());
  static final MethodDescriptor<Api.SetSlicesRequest, Api.SetSlicesResponse> SET_SLICES =
      Methods.unary(
          "SetSlices",
          Api.SetSlicesRequest.getDefaultInstance(),
          Api.SetSlicesResponse.getDefaultInstance());
  static final MethodDescriptor<Api.AddPlatformRequest, Api.AddPlatformResponse> ADD_PLATFORM =
      Methods.unary(
          "AddPlatform",
          Api.AddPlatformRequest.getDefaultInstance(),
          Api.AddPlatformResponse.getDefaultInstance());
  static final MethodDescriptor<Api.RemovePlatformRequest, Api.RemovePlatformResponse>
      REMOVE_PLATFORM =
          Methods.unary(
              "RemovePlatform",
              Api.RemovePlatformRequest.getDefaultInstance(),
              Api.RemovePlatformResponse.getDefaultInstance());
  static final MethodDescriptor<Api.PauseSlicesRequest, Api.PauseSlicesResponse> PAUSE_SLICES =
      Methods.unary(
          "PauseSlices",
          Api.PauseSlicesRequest.getDefaultInstance(),
          Api.PauseSlicesResponse.getDefaultInstance());
  static final MethodDescriptor<Api.ResumeSlicesRequest, Api.ResumeSlicesResponse> RESUME_SLICES =
      Methods.unary(
          "ResumeSlices",
          Api.ResumeSlicesRequest.getDefaultInstance(),
          Api.ResumeSlicesResponse.getDefaultInstance());
  static final MethodDescriptor<Api.ResetPlatformRequest, Api.ResetPlatformResponse>
      RESET_PLATFORM =
          Methods.unary(
              "ResetPlatform",
              Api.ResetPlatformRequest.getDefaultInstance(),
              Api.ResetPlatformResponse.getDefaultInstance());
  static final MethodDescriptor<Api.RetrySlicesRequest, Api.RetrySlicesResponse> RETRY_SLICES =
      Methods.unary(
          "RetrySlices",
          Api.RetrySlicesRequest.getDefaultInstance(),
          Api.RetrySlicesResponse.getDefaultInstance());
  static final MethodDescriptor<Api.ApplyPlatformsRequest, Api.ApplyPlatformsResponse>
      APPLY_PLATFORMS =
          Methods.unary(
              "ApplyPlatforms",
              Api.ApplyPlatformsRequest.getDefaultInstance(),
              Api.ApplyPlatformsResponse.getDefaultInstance());

  private SliceMethods() {}
}
