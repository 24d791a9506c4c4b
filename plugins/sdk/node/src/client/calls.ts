// The messages of calls.

import {
  create,
  type DescMessage,
  fromBinary,
  type MessageInitShape,
  type MessageShape,
  toBinary,
} from "@bufbuild/protobuf";
import {
  LimitSchema,
  PlatformSchema,
  ScheduleSchema,
  SliceSourceSchema,
  SourceSchema,
  TaskSchema,
} from "../gen/taskengine_pb.js";
import { Internal, Invalid } from "./errors.js";
import type { Limit, Platform, Schedule, SliceSource, Source, Task } from "./messages.js";
import { toNative } from "./native.js";
import type { TaskFilter } from "./options.js";

/** A method of the API. */
interface Method<I extends DescMessage, O extends DescMessage> {
  readonly name: string;
  readonly input: I;
  readonly output: O;
}

/** The message of a request. Throws Invalid for what cannot be sent. */
export function encoded<I extends DescMessage>(
  method: Method<I, DescMessage>,
  request: () => MessageInitShape<I>,
): Uint8Array {
  try {
    return toBinary(method.input, create(method.input, request()));
  } catch (error) {
    throw new Invalid(`${method.name}: ${(error as Error).message}`, "invalid_argument", "", { cause: error });
  }
}

/** The message of an answer. */
export function decoded<O extends DescMessage>(
  method: Method<DescMessage, O>,
  bytes: Uint8Array,
  address: string,
): MessageShape<O> {
  try {
    return fromBinary(method.output, bytes);
  } catch (error) {
    throw new Internal(`the answer of ${method.name} is not valid`, "internal", address, { cause: error });
  }
}

/** The task of an answer. */
export function taskOf({ task }: { task?: MessageShape<typeof TaskSchema> | undefined }): Task {
  return toNative(TaskSchema, task ?? create(TaskSchema));
}

/** The limit of an answer. */
export function limitOf({ limit }: { limit?: MessageShape<typeof LimitSchema> | undefined }): Limit {
  return toNative(LimitSchema, limit ?? create(LimitSchema));
}

/** The schedule of an answer. */
export function scheduleOf({ schedule }: { schedule?: MessageShape<typeof ScheduleSchema> | undefined }): Schedule {
  return toNative(ScheduleSchema, schedule ?? create(ScheduleSchema));
}

/** The source of an answer. */
export function sourceOf({ source }: { source?: MessageShape<typeof SourceSchema> | undefined }): Source {
  return toNative(SourceSchema, source ?? create(SourceSchema));
}

/** The source of time slices of an answer. */
export function sliceSourceOf({
  source,
}: {
  source?: MessageShape<typeof SliceSourceSchema> | undefined;
}): SliceSource {
  return toNative(SliceSourceSchema, source ?? create(SliceSourceSchema));
}

/** The platform of an answer. */
export function platformOf({ platform }: { platform?: MessageShape<typeof PlatformSchema> | undefined }): Platform {
  return toNative(PlatformSchema, platform ?? create(PlatformSchema));
}

/** The platform of an answer, which has none if the order was for all of a source. */
export function anyPlatformOf(answer: {
  platform?: MessageShape<typeof PlatformSchema> | undefined;
}): Platform | undefined {
  return answer.platform && platformOf(answer);
}

/** A filter that is one. Throws Invalid for a text in place of a list, whose characters would be taken for names. */
export function checkedFilter<F extends Pick<TaskFilter, "states" | "types">>(filter: F): F {
  for (const name of ["states", "types"] as const) {
    const list: unknown = filter[name];
    if (list !== undefined && !(Array.isArray(list) && list.every((one) => typeof one === "string"))) {
      throw new Invalid(`${name} is a list of texts, such as ["mail"]`, "invalid_argument");
    }
  }
  return filter;
}
