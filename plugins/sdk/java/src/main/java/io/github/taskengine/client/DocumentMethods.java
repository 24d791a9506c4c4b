package io.github.taskengine.client;

import io.github.taskengine.client.internal.Api;
import io.grpc.MethodDescriptor;

/** The methods of the API about documents. */
final class DocumentMethods {
  static final MethodDescriptor<Api.GetDocumentRequest, Api.GetDocumentResponse> GET =
      Methods.unary(
          "GetDocument",
          Api.GetDocumentRequest.getDefaultInstance(),
          Api.GetDocumentResponse.getDefaultInstance());
  static final MethodDescriptor<Api.ListDocumentsRequest, Api.ListDocumentsResponse> LIST =
      Methods.unary(
          "ListDocuments",
          Api.ListDocumentsRequest.getDefaultInstance(),
          Api.ListDocumentsResponse.getDefaultInstance());
  static final MethodDescriptor<Api.SetDocumentRequest, Api.SetDocumentResponse> SET =
      Methods.unary(
          "SetDocument",
          Api.SetDocumentRequest.getDefaultInstance(),
          Api.SetDocumentResponse.getDefaultInstance());
  static final MethodDescriptor<Api.DeleteDocumentRequest, Api.DeleteDocumentResponse> DELETE =
      Methods.unary(
          "DeleteDocument",
          Api.DeleteDocumentRequest.getDefaultInstance(),
          Api.DeleteDocumentResponse.getDefaultInstance());

  private DocumentMethods() {}
}
