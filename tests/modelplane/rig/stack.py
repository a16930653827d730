"""A function in place of Modelplane's serving stack: nothing to install, and a gateway's address.

The real one installs Helm charts, whose pods would run nowhere here.
"""

import click
import grpc
from crossplane.function import resource, response, runtime
from crossplane.function.proto.v1 import run_function_pb2 as fnv1
from crossplane.function.proto.v1 import run_function_pb2_grpc as grpcv1


class Stack(grpcv1.FunctionRunnerServiceServicer):
    async def RunFunction(
        self, req: fnv1.RunFunctionRequest, _: grpc.aio.ServicerContext | None
    ) -> fnv1.RunFunctionResponse:
        rsp = response.to(req)
        resource.update_status(rsp.desired.composite, {"gateway": {"address": "192.0.2.1"}})
        rsp.desired.composite.ready = fnv1.READY_TRUE
        return rsp


@click.command()
@click.option("--address", required=True)
@click.option("--tls-certs-dir", required=True)
def main(address: str, tls_certs_dir: str) -> None:
    credentials = runtime.load_credentials(tls_certs_dir)
    runtime.serve(Stack(), address, creds=credentials, insecure=False)


if __name__ == "__main__":
    main()
