package io.github.taskengine.json;

import com.google.gson.Gson;
import com.google.gson.GsonBuilder;
import com.google.gson.JsonParseException;
import com.google.gson.Strictness;
import com.google.gson.TypeAdapter;
import com.google.gson.reflect.TypeToken;
import com.google.gson.stream.JsonReader;
import java.io.IOException;
import java.lang.reflect.Type;
import java.math.BigDecimal;
import java.math.BigInteger;
import java.nio.ByteBuffer;
import java.nio.CharBuffer;
import java.nio.charset.CharacterCodingException;
import java.nio.charset.StandardCharsets;
import java.util.Collection;
import java.util.Map;
import java.util.UUID;
import org.jspecify.annotations.Nullable;

/**
 * JSON of values for which all libraries agree: records, collections, and what these are made of.
 */
final class PlainJson implements Json {
  private final Gson gson =
      new GsonBuilder()
          .registerTypeAdapterFactory(PlainJson::refuseOthers)
          .setStrictness(Strictness.STRICT)
          .setObjectToNumberStrategy(PlainJson::number)
          .serializeNulls()
          .disableHtmlEscaping()
          .create();

  @Override
  public byte[] encode(Object value) {
    try {
      ByteBuffer bytes =
          StandardCharsets.UTF_8.newEncoder().encode(CharBuffer.wrap(gson.toJson(value)));
      byte[] exact = new byte[bytes.remaining()];
      bytes.get(exact);
      return exact;
    } catch (JsonParseException | IllegalArgumentException | NeedsLibrary e) {
      throw new JsonException(String.valueOf(e.getMessage()), e);
    } catch (CharacterCodingException e) {
      throw new JsonException("it has half a surrogate pair", e);
    }
  }

  @Override
  public @Nullable Object decode(byte[] json, Type type) {
    try {
      String text = StandardCharsets.UTF_8.newDecoder().decode(ByteBuffer.wrap(json)).toString();
      TypeToken<?> of = TypeToken.get(type);
      gson.getAdapter(
          of); // the error of a class that needs a library would be one of the JSON below
      return gson.fromJson(text, of);
    } catch (JsonParseException e) {
      throw new JsonException(String.valueOf(e.getMessage()), e);
    } catch (CharacterCodingException e) {
      throw new JsonException("it is not UTF-8", e);
    }
  }

  private static <T> @Nullable TypeAdapter<T> refuseOthers(Gson gson, TypeToken<T> type) {
    Class<?> raw = type.getRawType();
    if (raw.isPrimitive()
        || raw.isArray()
        || raw.isEnum()
        || raw.isRecord()
        || raw == Object.class
        || raw == Boolean.class
        || raw == Character.class
        || raw == UUID.class
        || Number.class.isAssignableFrom(raw)
        || CharSequence.class.isAssignableFrom(raw)
        || Map.class.isAssignableFrom(raw)
        || Collection.class.isAssignableFrom(raw)) {
      return null; // Gson has an adapter
    }
    throw new NeedsLibrary(
        raw.getName()
            + " needs Jackson: add tools.jackson.core:jackson-databind or"
            + " com.fasterxml.jackson.core:jackson-databind to the application. Without it JSON is made of records,"
            + " maps, collections, arrays, texts, numbers, booleans, enums and UUIDs");
  }

  /** A number without a type: as Jackson has it. */
  private static Number number(JsonReader from) throws IOException {
    String text = from.nextString();
    if (text.indexOf('.') >= 0 || text.indexOf('e') >= 0 || text.indexOf('E') >= 0) {
      double number = Double.parseDouble(text);
      return Double.isFinite(number) ? number : new BigDecimal(text);
    }
    BigInteger number = new BigInteger(text);
    if (number.bitLength() < Integer.SIZE) {
      return number.intValue();
    }
    return number.bitLength() < Long.SIZE ? (Number) number.longValue() : number;
  }

  /** A class whose JSON libraries make in different ways. */
  private static final class NeedsLibrary extends IllegalStateException {
    private static final long serialVersionUID = 1L;

    NeedsLibrary(String message) {
      super(message);
    }
  }
}
