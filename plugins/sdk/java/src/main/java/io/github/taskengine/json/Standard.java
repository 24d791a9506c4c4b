package io.github.taskengine.json;

import com.fasterxml.jackson.databind.DeserializationFeature;
import com.fasterxml.jackson.databind.SerializationFeature;
import java.lang.reflect.Type;
import java.util.List;
import java.util.function.Supplier;
import org.jspecify.annotations.Nullable;

/** JSON by what the application has for it, which is looked for when it is needed first. */
final class Standard implements Json {
  static final Json JSON = new Standard();

  private Standard() {}

  @Override
  public byte[] encode(Object value) {
    return Found.JSON.encode(value);
  }

  @Override
  public @Nullable Object decode(byte[] json, Type type) {
    return Found.JSON.decode(json, type);
  }

  private static final class Found {
    static final Json JSON = find(List.of(ByJackson3::make, ByJackson2::make));
  }

  /** The first that works in this application, or one that needs no library. */
  static Json find(List<Supplier<Json>> ways) {
    for (Supplier<Json> way : ways) {
      try {
        Json json = way.get();
        json.decode(json.encode(List.of("a", 1)), List.class);
        return json;
      } catch (LinkageError e) {
        // The application has not this library, or only parts of it, or in versions that do not fit
        // together.
      }
    }
    return new PlainJson();
  }

  // Classes of their own: each is loaded only when it is used, and fails then if its library is not
  // there.

  private static final class ByJackson3 {
    static Json make() {
      return new Jackson3(tools.jackson.databind.json.JsonMapper.shared());
    }
  }

  private static final class ByJackson2 {
    static Json make() {
      return new Jackson2(
          com.fasterxml.jackson.databind.json.JsonMapper.builder()
              .findAndAddModules()
              .disable(SerializationFeature.WRITE_DATES_AS_TIMESTAMPS)
              .disable(SerializationFeature.WRITE_DURATIONS_AS_TIMESTAMPS)
              .disable(DeserializationFeature.FAIL_ON_UNKNOWN_PROPERTIES)
              .enable(DeserializationFeature.FAIL_ON_NULL_FOR_PRIMITIVES)
              .enable(DeserializationFeature.FAIL_ON_TRAILING_TOKENS)
              .build());
    }
  }
}
