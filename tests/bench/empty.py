"""The empty function that every figure stands beside: the SDK's server, desired as received."""

import click
from crossplane.function import cli as sdkcli
from crossplane.function import response
from crossplane.function.proto.v1 import run_function_pb2 as fnv1
from crossplane.function.proto.v1 import run_function_pb2_grpc as grpcv1


class Empty(grpcv1.FunctionRunnerServiceServicer):
    async def RunFunction(self, req: fnv1.RunFunctionRequest, _: object):
        return response.to(req)


@click.command(context_settings={"default_map": {"max_recv_message_size": 64}})
@sdkcli.standard_options
def main(**options: object) -> None:
    sdkcli.run(Empty(), **options)


if __name__ == "__main__":
    main()
