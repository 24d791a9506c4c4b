package io.github.taskengine.client;

import io.github.taskengine.client.internal.Api;
import java.util.stream.Stream;
import org.jspecify.annotations.Nullable;

/** Reads and writes documents: {@link TaskengineClient#documents}. */
public final class Documents {
  private final Calls calls;
  private final Requests requests;
  private final long timeout;

  Documents(Calls calls, Requests requests, long timeout) {
    this.calls = calls;
    this.requests = requests;
    this.timeout = timeout;
  }

  /**
   * A document.
   *
   * @param key of the document
   * @return the document
   * @throws NotFoundException if there is none
   */
  public Document get(String key) {
    Api.GetDocumentRequest request = Api.GetDocumentRequest.newBuilder().setKey(key).build();
    return document(calls.make(DocumentMethods.GET, request, true, timeout).getDocument());
  }

  /**
   * The documents that have keys with a prefix. Each page of them is a call of its own, which is
   * made when it is needed.
   *
   * @param prefix of their keys; empty: all
   * @return the documents without their data, in the order of their keys
   */
  public Stream<Document> list(String prefix) {
    Api.ListDocumentsRequest request =
        Api.ListDocumentsRequest.newBuilder().setPrefix(prefix).build();
    return Page.all(
        token -> {
          Api.ListDocumentsRequest next = request.toBuilder().setPageToken(token).build();
          Api.ListDocumentsResponse page = calls.make(DocumentMethods.LIST, next, true, timeout);
          return Page.of(
              Messages.all(page.getDocumentsList(), Documents::document), page.getNextPageToken());
        });
  }

  /**
   * Writes a document, and makes it if there is none. With a version the call is not repeated.
   *
   * @param key of the document
   * @param write of the document
   * @return the document without its data
   * @throws ConflictException if the document has another version than the write names
   */
  public Document set(String key, DocumentWrite write) {
    Api.SetDocumentRequest request = requests.message(key, write);
    boolean isRepeatable = write.ifVersion() == null;
    return document(calls.make(DocumentMethods.SET, request, isRepeatable, timeout).getDocument());
  }

  /**
   * Removes a document.
   *
   * @param key of the document
   * @throws NotFoundException if there is none
   */
  public void delete(String key) {
    delete(key, null, "");
  }

  /**
   * Removes a document. The call is not repeated.
   *
   * @param key of the document
   * @param ifVersion only if it has this version; null: any
   * @param by who asks; written to the log of the node
   * @throws NotFoundException if there is none
   * @throws ConflictException if it has another version
   */
  public void delete(String key, @Nullable Long ifVersion, String by) {
    Api.DeleteDocumentRequest.Builder request =
        Api.DeleteDocumentRequest.newBuilder().setKey(key).setBy(by);
    if (ifVersion != null) {
      request.setIfVersion(ifVersion);
    }
    calls.make(DocumentMethods.DELETE, request.build(), false, timeout);
  }

  private static Document document(Api.Document d) {
    return new Document(
        d.getKey(),
        d.getData().toByteArray(),
        d.getSize(),
        d.getVersion(),
        d.hasCreatedAt() ? Times.instant(d.getCreatedAt()) : null,
        d.hasUpdatedAt() ? Times.instant(d.getUpdatedAt()) : null,
        d.hasExpiresAt() ? Times.instant(d.getExpiresAt()) : null);
  }
}
