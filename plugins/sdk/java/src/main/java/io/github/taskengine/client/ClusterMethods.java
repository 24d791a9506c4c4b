package io.github.taskengine.client;

import io.github.taskengine.client.internal.Api;
import io.grpc.MethodDescriptor;

/** The methods of the API about nodes, workers and tokens. */
final class ClusterMethods {
  static final MethodDescriptor<Api.ListNodesRequest, Api.ListNodesResponse> LIST_NODES =
      Methods.unary(
          "ListNodes",
          Api.ListNodesRequest.getDefaultInstance(),
          Api.ListNodesResponse.getDefaultInstance());
  static final MethodDescriptor<Api.DrainNodeRequest, Api.DrainNodeResponse> DRAIN_NODE =
      Methods.unary(
          "DrainNode",
          Api.DrainNodeRequest.getDefaultInstance(),
          Api.DrainNodeResponse.getDefaultInstance());
  static final MethodDescriptor<Api.ListWorkersRequest, Api.ListWorkersResponse> LIST_WORKERS =
      Methods.unary(
          "ListWorkers",
          Api.ListWorkersRequest.getDefaultInstance(),
          Api.ListWorkersResponse.getDefaultInstance());
  static final MethodDescriptor<Api.DrainWorkerRequest, Api.DrainWorkerResponse> DRAIN_WORKER =
      Methods.unary(
          "DrainWorker",
          Api.DrainWorkerRequest.getDefaultInstance(),
          Api.DrainWorkerResponse.getDefaultInstance());
  static final MethodDescriptor<Api.AddTokenRequest, Api.AddTokenResponse> ADD_TOKEN =
      Methods.unary(
          "AddToken",
          Api.AddTokenRequest.getDefaultInstance(),
          Api.AddTokenResponse.getDefaultInstance());
  static final MethodDescriptor<Api.ListTokensRequest, Api.ListTokensResponse> LIST_TOKENS =
      Methods.unary(
          "ListTokens",
          Api.ListTokensRequest.getDefaultInstance(),
          Api.ListTokensResponse.getDefaultInstance());
  static final MethodDescriptor<Api.RevokeTokenRequest, Api.RevokeTokenResponse> REVOKE_TOKEN =
      Methods.unary(
          "RevokeToken",
          Api.RevokeTokenRequest.getDefaultInstance(),
          Api.RevokeTokenResponse.getDefaultInstance());
  static final MethodDescriptor<Api.RotateTokenRequest, Api.RotateTokenResponse> ROTATE_TOKEN =
      Methods.unary(
          "RotateToken",
          Api.RotateTokenRequest.getDefaultInstance(),
          Api.RotateTokenResponse.getDefaultInstance());
  static final MethodDescriptor<Api.RevokeSessionsRequest, Api.RevokeSessionsResponse>
      REVOKE_SESSIONS =
          Methods.unary(
              "RevokeSessions",
              Api.RevokeSessionsRequest.getDefaultInstance(),
              Api.RevokeSessionsResponse.getDefaultInstance());

  private ClusterMethods() {}
}
