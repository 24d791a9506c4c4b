package io.github.taskengine.internal;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.io.IOException;
import java.security.cert.CertPathValidatorException;
import java.security.cert.CertificateExpiredException;
import javax.net.ssl.SSLHandshakeException;
import org.junit.jupiter.api.Test;

class CausesTest {
  @Test
  void theFirstCauseIsNamed() {
    Throwable expired = new CertificateExpiredException("NotAfter: Fri Jan 03 00:00:00 UTC 2020");
    Throwable invalid = new CertPathValidatorException("validity check failed", expired);
    Throwable handshake = new SSLHandshakeException("PKIX path validation failed: " + invalid);
    handshake.initCause(invalid);
    assertEquals(
        handshake.getMessage()
            + ": CertificateExpiredException: NotAfter: Fri Jan 03 00:00:00 UTC 2020",
        Causes.textOf(handshake));
  }

  @Test
  void whatTheMessageSaysIsNotSaidTwice() {
    assertEquals("away", Causes.textOf(new IOException("away")));
    assertEquals("IOException", Causes.textOf(new IOException()));
    assertEquals(
        "java.io.IOException: away", Causes.textOf(new RuntimeException(new IOException("away"))));
    assertEquals(
        "lost: IOException", Causes.textOf(new RuntimeException("lost", new IOException())));
  }

  @Test
  void aCircleEnds() {
    Throwable one = new IOException("one");
    one.initCause(new IOException("two", one));
    Causes.textOf(one);
  }
}
