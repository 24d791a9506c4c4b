// The calls about the nodes of a cluster, their workers, and tokens.

import { create, type MessageShape } from "@bufbuild/protobuf";
import {
  NodeSchema,
  RevokeSessionsResponseSchema,
  SilentNodeSchema,
  TaskService,
  TokenSchema,
  WorkerSchema,
} from "../gen/taskengine_pb.js";
import type { ClusterNode, ClusterWorker, NewSecret, SilentNode, Token } from "./messages.js";
import { duration, toNative } from "./native.js";
import type { CallOptions, NewToken, TokenRevocation, TokenRotation } from "./options.js";
import { TaskCalls } from "./tasks.js";

export abstract class ClusterCalls extends TaskCalls {
  /**
   * The nodes of the cluster that are alive, by name, or those with a name or an id. Nodes that did not answer are among
   * them, without a status, and in silent.
   */
  async nodes({
    node = "",
    ...options
  }: CallOptions & { node?: string } = {}): Promise<{ nodes: ClusterNode[]; silent: SilentNode[] }> {
    const answer = await this.call(TaskService.method.listNodes, () => ({ node }), options);
    return { nodes: answer.nodes.map((one) => toNative(NodeSchema, one)), silent: answer.silent.map(silentOf) };
  }

  /** Has a node, by its name or id, stop after its running tasks, and returns it as it was announced. */
  async drainNode(node: string, { by = "", ...options }: CallOptions & { by?: string } = {}): Promise<ClusterNode> {
    const answer = await this.call(TaskService.method.drainNode, () => ({ node, by }), options, false);
    return toNative(NodeSchema, answer.node ?? create(NodeSchema));
  }

  /** The workers of all nodes, by node. Those of nodes that are silent are missing. */
  async workers(options?: CallOptions): Promise<{ workers: ClusterWorker[]; silent: SilentNode[] }> {
    return workersOf(await this.call(TaskService.method.listWorkers, () => ({}), options));
  }

  /**
   * Has a worker, by its id, or all with a name, end after their running tasks, and returns those that end now. Nodes that
   * are silent have drained none. It may be repeated.
   */
  async drainWorker(
    worker: string,
    options?: CallOptions,
  ): Promise<{ workers: ClusterWorker[]; silent: SilentNode[] }> {
    return workersOf(await this.call(TaskService.method.drainWorker, () => ({ worker }), options));
  }

  // --- tokens, which only tokens with the role admin for all types manage

  /**
   * Makes a token that the nodes accept within about a second. Its secret is kept nowhere. Throws AlreadyExists if a valid
   * token has the name. The call is not repeated: without an answer the token may be there, and rotateToken gives it
   * another secret.
   */
  async addToken(token: NewToken, options?: CallOptions): Promise<NewSecret> {
    const request = () => {
      const { name, roles, types = [], expiresIn, by = "" } = token;
      return {
        ...{ name, by, roles: [...roles], types: [...types] },
        ...(expiresIn !== undefined && { expiresIn: duration(expiresIn) }),
      };
    };
    return secretOf(await this.call(TaskService.method.addToken, request, options, false));
  }

  /**
   * The tokens of the cluster by name, and then those of the file of the node. With revoked also those that were revoked or
   * have expired in the last 30 days.
   */
  async tokens({ revoked = false, ...options }: CallOptions & { revoked?: boolean } = {}): Promise<Token[]> {
    const { tokens } = await this.call(TaskService.method.listTokens, () => ({ revoked }), options);
    return tokens.map((token) => toNative(TokenSchema, token));
  }

  /**
   * Has the nodes refuse a token within about a second. The last valid token that may manage tokens is revoked with force
   * alone. Revoking it again changes nothing.
   */
  async revokeToken(
    name: string,
    { force = false, by = "", ...options }: TokenRevocation & CallOptions = {},
  ): Promise<Token> {
    return tokenOf(await this.call(TaskService.method.revokeToken, () => ({ name, force, by }), options));
  }

  /** Gives a token another secret. The one from before is accepted for the time of grace. The call is not repeated. */
  async rotateToken(
    name: string,
    { grace, by = "", ...options }: TokenRotation & CallOptions = {},
  ): Promise<NewSecret> {
    const request = () => ({ name, by, ...(grace !== undefined && { grace: duration(grace) }) });
    return secretOf(await this.call(TaskService.method.rotateToken, request, options, false));
  }

  /**
   * Ends all sessions that a person, by the name in audit lines, has begun at the dashboard before a time, which it returns:
   * the present. Every node refuses them within about a second, and the person may log in again. Throws NotAllowed if
   * people do not log in at an identity provider.
   */
  async revokeSessions(person: string, { by = "", ...options }: CallOptions & { by?: string } = {}): Promise<Date> {
    const answer = await this.call(TaskService.method.revokeSessions, () => ({ person, by }), options);
    return toNative(RevokeSessionsResponseSchema, answer).before ?? new Date(0);
  }
}

/** A node that did not answer. */
export function silentOf(node: MessageShape<typeof SilentNodeSchema>): SilentNode {
  return toNative(SilentNodeSchema, node);
}

function workersOf(answer: {
  workers: MessageShape<typeof WorkerSchema>[];
  silent: MessageShape<typeof SilentNodeSchema>[];
}): { workers: ClusterWorker[]; silent: SilentNode[] } {
  return {
    workers: answer.workers.map((one) => toNative(WorkerSchema, one)),
    silent: answer.silent.map(silentOf),
  };
}

function tokenOf({ token }: { token?: MessageShape<typeof TokenSchema> | undefined }): Token {
  return toNative(TokenSchema, token ?? create(TokenSchema));
}

function secretOf(answer: { token?: MessageShape<typeof TokenSchema> | undefined; secret: string }): NewSecret {
  return { token: tokenOf(answer), secret: answer.secret };
}
