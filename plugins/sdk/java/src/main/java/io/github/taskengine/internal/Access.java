package io.github.taskengine.internal;

import io.grpc.Metadata;
import io.grpc.netty.GrpcSslContexts;
import io.netty.handler.ssl.SslContext;
import io.netty.handler.ssl.SslContextBuilder;
import java.io.IOException;
import java.nio.file.Path;
import org.jspecify.annotations.Nullable;

/**
 * How a program shows who it is, and how it knows a node. The files are in PEM.
 *
 * @param token that is sent with every call
 * @param authority of the certificates of nodes; null is those whom Java trusts
 * @param certificate of the program
 * @param key of that certificate
 */
public record Access(
    @Nullable String token,
    @Nullable Path authority,
    @Nullable Path certificate,
    @Nullable Path key) {
  private static final Metadata.Key<String> AUTHORIZATION =
      Metadata.Key.of("authorization", Metadata.ASCII_STRING_MARSHALLER);

  /**
   * A token as it is sent: without the white space around it that a file has.
   *
   * @param given the token; empty is none
   * @return the token; null is none
   * @throws IllegalArgumentException if it cannot be sent; the message does not contain it
   */
  public static @Nullable String tokenOf(String given) {
    if (given.isEmpty()) {
      return null;
    }
    String token = given.strip();
    String ask = "; give the text that `taskengine token create` prints";
    if (token.isEmpty()) {
      throw new IllegalArgumentException("the token has white space only" + ask);
    }
    if (!token.chars().allMatch(c -> '!' <= c && c <= '~')) {
      throw new IllegalArgumentException(
          "the token has a character that no token has, such as a space or a line break between"
              + " others"
              + ask);
    }
    return token;
  }

  /** The headers of a call, which the call changes. */
  public Metadata headers() {
    Metadata headers = new Metadata();
    if (token != null) {
      headers.put(AUTHORIZATION, "Bearer " + token);
    }
    return headers;
  }

  /** Whether connections to host:port are encrypted, too. */
  public boolean needsTls() {
    return authority != null || certificate != null;
  }

  /** Reads the files. */
  SslContext tls() throws IOException {
    SslContextBuilder tls = GrpcSslContexts.forClient();
    if (authority != null) {
      tls.trustManager(authority.toFile());
    }
    if (certificate != null && key != null) {
      tls.keyManager(certificate.toFile(), key.toFile());
    }
    return tls.build();
  }
}
