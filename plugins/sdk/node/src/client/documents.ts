// The calls about documents.

import { create, type MessageShape } from "@bufbuild/protobuf";
import { DocumentSchema, TaskService } from "../gen/taskengine_pb.js";
import { encode } from "../text.js";
import { ClusterCalls } from "./cluster.js";
import type { Document } from "./messages.js";
import { timestamp, toNative } from "./native.js";
import type { CallOptions, DocumentDelete, DocumentWrite } from "./options.js";

export abstract class DocumentCalls extends ClusterCalls {
  /** A document. Throws NotFound if there is none. */
  async document(key: string, options?: CallOptions): Promise<Document> {
    return documentOf(await this.call(TaskService.method.getDocument, () => ({ key }), options));
  }

  /**
   * The documents that have keys with a prefix, without their data, in the order of their keys. Each page is a call of its
   * own.
   */
  async *documents({
    prefix = "",
    ...options
  }: CallOptions & { prefix?: string } = {}): AsyncGenerator<Document, void, undefined> {
    let pageToken = "";
    do {
      const page = await this.call(TaskService.method.listDocuments, () => ({ prefix, pageToken }), options);
      for (const document of page.documents) yield toNative(DocumentSchema, document);
      pageToken = page.nextPageToken;
    } while (pageToken);
  }

  /**
   * Writes a document, and makes it if there is none. The data are encoded as the payload of a submit. Returns the document
   * without its data. With ifVersion it is written only if the document has this version, and throws Conflict otherwise;
   * the call is not repeated then.
   */
  async setDocument(
    key: string,
    data: unknown,
    { ifVersion, expiresAt, by = "", ...options }: DocumentWrite & CallOptions = {},
  ): Promise<Document> {
    const request = () => ({
      ...{ key, by },
      ...(data !== undefined && { data: encode(data) }),
      ...(ifVersion !== undefined && { ifVersion: BigInt(ifVersion) }),
      ...(expiresAt !== undefined && { expiresAt: timestamp(expiresAt) }),
    });
    return documentOf(await this.call(TaskService.method.setDocument, request, options, ifVersion === undefined));
  }

  /**
   * Removes a document. Throws NotFound if there is none, and Conflict if it has another version than ifVersion. The call
   * is not repeated.
   */
  async deleteDocument(
    key: string,
    { ifVersion, by = "", ...options }: DocumentDelete & CallOptions = {},
  ): Promise<void> {
    const request = () => ({ key, by, ...(ifVersion !== undefined && { ifVersion: BigInt(ifVersion) }) });
    await this.call(TaskService.method.deleteDocument, request, options, false);
  }
}

function documentOf({ document }: { document?: MessageShape<typeof DocumentSchema> | undefined }): Document {
  return toNative(DocumentSchema, document ?? create(DocumentSchema));
}
